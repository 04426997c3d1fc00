"""The mutants of a module: its syntax tree with one small mistake in a function."""

from __future__ import annotations

import ast
import sys
from copy import deepcopy
from inspect import CO_OPTIMIZED
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    _Change = Callable[[ast.AST], ast.AST]

_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
}
_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any"}


class Mutant(NamedTuple):
    """A place in a module, and what it becomes.

    Attributes:
        number: Which of the module's mutants it is.
        function: The first line of the function that has it, with its decorators.
        text: What it was, and what it becomes.
    """

    number: int
    line: int
    function: int
    text: str


def mutants(source: str) -> list[Mutant]:
    """Return the mutants of a module."""
    found: list[Mutant] = []
    for number, (function, node, changed) in enumerate(_changes(ast.parse(source))):
        first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
        text = f"{_line(node)} -> {_line(changed(deepcopy(node)))}"
        found.append(Mutant(number, getattr(node, "lineno", None) or node.target.lineno, first, text))
    return found


def mutate(file: Path, mutant: Mutant) -> None:
    """Make a module that is loaded one of its mutants.

    Code of a function is replaced in place, so that whoever has imported the function has the mutant.
    """
    tree = ast.parse(file.read_text())
    _, node, changed = list(_changes(tree))[mutant.number]
    _Replacement(node, changed(deepcopy(node))).visit(tree)
    code = compile(ast.fix_missing_locations(tree), str(file), "exec")
    (new,) = (each for each in _codes(code) if each.co_firstlineno == mutant.function)
    for function in _functions(file):
        if function.__code__.co_firstlineno == mutant.function:
            function.__code__ = new


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of each function of a module or class, but not of the functions in them."""
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield each
            if not each.co_flags & CO_OPTIMIZED:  # the body of a class
                yield from _codes(each)


def _functions(file: Path) -> Iterator[FunctionType]:
    """Yield the functions and methods that a file defines."""
    (module,) = (each for each in [*sys.modules.values()] if getattr(each, "__file__", None) == str(file))
    todo: list[object] = [*vars(module).values()]
    while todo:
        each = todo.pop()
        if isinstance(each, FunctionType):
            if each.__code__.co_filename == str(file):
                yield each
        elif isinstance(each, type) and each.__module__ == module.__name__:
            todo += vars(each).values()
        for name in ("__wrapped__", "__func__", "fget", "func"):
            if (inner := getattr(each, name, None)) is not None and not isinstance(each, type):
                todo.append(inner)


_Function = ast.FunctionDef | ast.AsyncFunctionDef


class _Replacement(ast.NodeTransformer):
    def __init__(self, node: ast.AST, replacement: ast.AST) -> None:
        self._node, self._replacement = node, replacement

    def visit(self, node: ast.AST) -> ast.AST:
        return self._replacement if node is self._node else super().generic_visit(node)


def _line(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:90]


def _changes(tree: ast.Module) -> Iterator[tuple[_Function, ast.AST, _Change]]:
    """Yield each node in the body of a function with what may replace it."""
    functions = [node for node in ast.walk(tree) if isinstance(node, _Function)]
    inner = {child for each in functions for child in ast.walk(each) if child is not each}
    types = {child for each in ast.walk(tree) for hint in _hints(each) for child in ast.walk(hint)}
    for function in (each for each in functions if each not in inner):
        for statement in function.body:
            for node in ast.walk(statement):
                for changed in _changes_of(node) if node not in types else ():
                    yield function, node, changed


def _hints(node: ast.AST) -> Iterator[ast.expr]:
    """Yield the types of a node's names, which have no effect."""
    for name in ("annotation", "returns"):
        if (hint := getattr(node, name, None)) is not None:
            yield hint


def _changes_of(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.Compare):
        yield from _other_comparisons(node)
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and not _is_condition(node.test):
        yield _with(test=ast.UnaryOp(ast.Not(), node.test))
    elif isinstance(node, ast.stmt) and _has_effect(node):
        yield lambda _: ast.Pass()
    else:
        yield from _other_expressions(node)


def _other_comparisons(node: ast.Compare) -> Iterator[_Change]:
    for index, op in enumerate(node.ops):
        for kind in _COMPARISONS[type(op)]:
            yield _with(ops=[*node.ops[:index], kind(), *node.ops[index + 1 :]])


def _other_expressions(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.BoolOp(op=op):
            yield _with(op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield lambda _: operand
        case ast.BinOp(op=op) if type(op) in _OPERATORS:
            yield _with(op=_OPERATORS[type(op)]())
        case ast.Constant(value=bool(value)):
            yield _with(value=not value)
        case ast.Constant(value=int(value)):
            yield _with(value=value + 1)
        case ast.comprehension(ifs=[_, *_]):
            yield _with(ifs=[])
        case ast.Call(func=ast.Name(id=name)) if name in _FUNCTIONS:
            yield _with(func=ast.Name(_FUNCTIONS[name], ast.Load()))


def _has_effect(statement: ast.stmt) -> bool:
    """Return whether a statement can be dropped, and has another effect than to bind a name."""
    match statement:
        case ast.Expr(value=ast.Call()) | ast.Raise() | ast.AugAssign() | ast.Continue() | ast.Break():
            return True
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Delete():
            return True
    return False


def _is_condition(test: ast.expr) -> bool:
    """Return whether a test is mutated by itself."""
    return isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant)


def _with(**fields: object) -> _Change:
    def changed(node: ast.AST) -> ast.AST:
        for name, value in fields.items():
            setattr(node, name, value)
        return node

    return changed
