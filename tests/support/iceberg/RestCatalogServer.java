package org.apache.iceberg.rest; // for the mapper of requests and responses, which is private to the package

import com.fasterxml.jackson.databind.ObjectMapper;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.net.InetSocketAddress;
import java.net.URI;
import java.util.Arrays;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import org.apache.iceberg.Files;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalogProperties.SnapshotMode;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.RegisterTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.ErrorResponse;

/** Iceberg's own handlers of a REST catalog's requests, with its JDBC catalog, behind the HTTP server of the JDK. */
public class RestCatalogServer {
  private static final ObjectMapper MAPPER = RESTObjectMapper.mapper();
  private static final JdbcCatalog CATALOG = new JdbcCatalog();

  /** Arguments are the properties of the catalog. Prints the port, and ends with the standard input. */
  public static void main(String[] arguments) throws IOException {
    Map<String, String> properties =
        Arrays.stream(arguments).map(each -> each.split("=", 2)).collect(Collectors.toMap(each -> each[0], each -> each[1]));
    CATALOG.initialize("rest", properties);
    HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
    server.setExecutor(Executors.newCachedThreadPool());
    server.createContext("/v1/", RestCatalogServer::answer);
    server.start();
    System.out.println(server.getAddress().getPort());
    while (System.in.read() >= 0) {}
    System.exit(0);
  }

  private static void answer(HttpExchange exchange) throws IOException {
    byte[] request = exchange.getRequestBody().readAllBytes();
    int status = 200;
    Object response;
    try {
      response = respond(exchange, request);
      status = response == null ? 204 : 200;
    } catch (Exception error) {
      status = status(error);
      response =
          ErrorResponse.builder()
              .responseCode(status)
              .withType(error.getClass().getSimpleName())
              .withMessage(String.valueOf(error.getMessage()))
              .build();
    }
    boolean isBare = response == null || exchange.getRequestMethod().equals("HEAD");
    byte[] body = isBare ? new byte[0] : MAPPER.writeValueAsBytes(response);
    exchange.getResponseHeaders().set("Content-Type", "application/json");
    exchange.sendResponseHeaders(status, isBare ? -1 : body.length);
    exchange.getResponseBody().write(body);
    exchange.close();
  }

  private static int status(Exception error) {
    if (error instanceof NoSuchTableException || error instanceof NoSuchNamespaceException) return 404;
    if (error instanceof AlreadyExistsException || error instanceof CommitFailedException) return 409;
    return error instanceof RuntimeException && error.getClass().getName().startsWith("java.lang.Illegal") ? 400 : 500;
  }

  private static Object respond(HttpExchange exchange, byte[] body) throws IOException {
    String[] path = exchange.getRequestURI().getPath().substring("/v1/".length()).split("/");
    if (path[0].equals("config")) return ConfigResponse.builder().build();
    Namespace namespace = path.length > 1 ? Namespace.of(path[1]) : Namespace.empty();
    TableIdentifier table = path.length > 3 ? TableIdentifier.of(namespace, path[3]) : null;
    switch (exchange.getRequestMethod() + " " + (path.length > 2 ? path[2] : "namespaces") + " " + path.length) {
      case "GET namespaces 1":
        return CatalogHandlers.listNamespaces(CATALOG, namespace);
      case "POST namespaces 1":
        return CatalogHandlers.createNamespace(CATALOG, MAPPER.readValue(body, CreateNamespaceRequest.class));
      case "GET namespaces 2":
        return CatalogHandlers.loadNamespace(CATALOG, namespace);
      case "HEAD namespaces 2":
        CatalogHandlers.namespaceExists(CATALOG, namespace);
        return null;
      case "GET tables 3":
        return CatalogHandlers.listTables(CATALOG, namespace);
      case "POST tables 3":
        CreateTableRequest request = MAPPER.readValue(body, CreateTableRequest.class);
        return request.stageCreate()
            ? CatalogHandlers.stageTableCreate(CATALOG, namespace, request)
            : CatalogHandlers.createTable(CATALOG, namespace, request);
      case "POST register 3":
        return CatalogHandlers.registerTable(CATALOG, namespace, MAPPER.readValue(body, RegisterTableRequest.class));
      case "GET tables 4":
        return CatalogHandlers.loadTable(CATALOG, table, SnapshotMode.ALL);
      case "HEAD tables 4":
        CatalogHandlers.tableExists(CATALOG, table);
        return null;
      case "POST tables 4":
        return CatalogHandlers.updateTable(CATALOG, table, MAPPER.readValue(body, UpdateTableRequest.class));
      case "DELETE tables 4":
        CatalogHandlers.dropTable(CATALOG, table);
        return null;
      case "POST tables 5": // the metrics of a reader
        return null;
      default:
        throw new IllegalArgumentException("not served: " + exchange.getRequestMethod() + " " + String.join("/", path));
    }
  }

  /** Files on this machine's disk: the default of Iceberg needs Hadoop. */
  public static class DiskFiles implements FileIO {
    @Override
    public InputFile newInputFile(String location) {
      return at(location, InputFile.class, Files.localInput(file(location)));
    }

    @Override
    public OutputFile newOutputFile(String location) {
      return at(location, OutputFile.class, Files.localOutput(file(location)));
    }

    @Override
    public void deleteFile(String location) {
      file(location).delete();
    }

    private static File file(String location) {
      return location.startsWith("file:") ? new File(URI.create(location).getPath()) : new File(location);
    }

    /** Returns a file whose location has its scheme, which Iceberg's local files leave out. */
    private static <T> T at(String location, Class<T> kind, T file) {
      InvocationHandler handler =
          (proxy, method, arguments) -> {
            if (method.getName().equals("location")) return location;
            if (method.getName().equals("toInputFile")) return at(location, InputFile.class, Files.localInput(file(location)));
            try {
              return method.invoke(file, arguments);
            } catch (InvocationTargetException error) {
              throw error.getCause();
            }
          };
      return kind.cast(Proxy.newProxyInstance(kind.getClassLoader(), new Class<?>[] {kind}, handler));
    }
  }
}
