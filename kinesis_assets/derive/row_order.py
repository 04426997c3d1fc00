"""The order of a source's rows, by which of two rows that are equal in `order_by` the newer one is found.

The rows of a later commit are newer. Within a commit of a raw table the greater sequence number is newer, and
then the greater sub-sequence number: so each shard's own order holds, and that of parents and children. A
router stores the same order for its rows. Rows of one commit of any other derived table have no order but
that of their values.

The order is a column of texts. Tasks add it to the rows that they read, and Spark carries it through a
transformation, see `spark.carried_column`.

Spark tasks import this module.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ORDER_COLUMN = "__order"

_ID_DIGITS = 19
"""Those of the greatest number with 64 bits."""

_LENGTH_DIGITS = 3
"""A sequence number has at most 129 digits."""


_MOST_OVERLAPPING = 100
"""The maximum number of batches that a step includes in addition, so that it ends between two commits."""


def end_between_commits(batch_id: int, recorded: Sequence[int]) -> int:
    """Return the last batch of a step, moved on until the step ends between two commits.

    Runs that overlap commit in another order than that in which they draw their ids. A row would replace an
    equal one of a later commit if a step ended between two of them.

    Args:
        batch_id: The id at which the step would end otherwise.
        recorded: The batch ids of the commits, oldest first.

    Returns:
        The first id from that one on such that the commits up to it are those before all others. It is that
        one itself if too many runs overlap.
    """
    end = batch_id
    while True:
        before = sum(each <= end for each in recorded)
        greatest = max(recorded[:before], default=end)
        if greatest <= end:
            return end
        if sum(batch_id < each <= greatest for each in recorded) > _MOST_OVERLAPPING:
            return batch_id
        end = greatest


@dataclass(frozen=True, slots=True)
class RowOrder:
    """The order of the rows of a step.

    Attributes:
        commits: The batch ids of the commits, oldest first. Rows of other batches are older than these and
            in the order of the ids: those that a source had when its consumer started, whose commits may
            not be recorded any more. None if they were not read.
        within: Columns by which the rows of a commit are ordered, most significant first. Of two values the
            longer one is greater, as of two numbers, and null is less than any.
    """

    batch_column: str
    commits: tuple[int, ...] | None = None
    within: Sequence[str] = ()

    def adder(self) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
        """Return the function that adds their order to rows, as the last column."""
        ranks = {batch_id: f"1{rank:0{_ID_DIGITS}}" for rank, batch_id in enumerate(self.commits or ())}

        def with_order(batch: pa.RecordBatch) -> pa.RecordBatch:
            ids = batch[self.batch_column].dictionary_encode()
            texts = [ranks.get(each, f"0{each:0{_ID_DIGITS}}") for each in ids.dictionary.to_pylist()]
            parts = [pa.array(texts, pa.string()).take(ids.indices)]
            for name in self.within:
                text = pc.fill_null(batch[name].cast(pa.string()), "")
                parts += [pc.utf8_lpad(pc.utf8_length(text).cast(pa.string()), _LENGTH_DIGITS, "0"), text]
            order = pc.binary_join_element_wise(*parts, "")
            return pa.RecordBatch.from_arrays([*batch.columns, order], [*batch.schema.names, ORDER_COLUMN])

        return with_order
