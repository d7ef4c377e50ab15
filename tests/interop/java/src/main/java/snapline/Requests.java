package snapline;

import java.lang.reflect.Method;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.hadoop.conf.Configuration;
import org.apache.paimon.AppendOnlyFileStore;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.append.AppendCompactCoordinator;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.operation.LocalOrphanFilesClean;
import org.apache.paimon.options.ConfigOption;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.options.FallbackKey;
import org.apache.paimon.options.Options;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.reader.RecordReaderIterator;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ArrayNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.TableWrite;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.StreamTableScan;
import org.apache.paimon.table.source.TableRead;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.RowKind;
import org.apache.paimon.types.RowType;

/** What can be asked: a method for each value of {@code do}. */
final class Requests {
    // Hadoop reads its defaults from XML into each new one.
    private static final Configuration HADOOP = new Configuration();
    private static IOManager spill;

    private Requests() {}

    static JsonNode carryOut(JsonNode asked) throws Exception {
        if (asked.get("do").textValue().equals("options")) {
            return options();
        }
        Options options = new Options();
        String warehouse = asked.get("warehouse").textValue();
        // Paimon asks a loader for the files of URLs alone.
        options.set("warehouse", warehouse.startsWith("/") ? new Path("file", null, warehouse).toString() : warehouse);
        options.set("cache-enabled", "false");
        CatalogContext context = CatalogContext.create(options, HADOOP, new BufferedFiles(), null);
        try (Catalog catalog = CatalogFactory.createCatalog(context)) {
            Identifier name = Identifier.fromString(asked.get("table").textValue());
            String what = asked.get("do").textValue();
            if (what.equals("create")) {
                return create(catalog, name, asked);
            }
            if (what.equals("change type")) {
                return changeType(catalog, name, asked);
            }
            Table table = catalog.getTable(name);
            if (asked.has("options")) {
                table = table.copy(texts(asked.get("options")));
            }
            switch (what) {
                case "read":
                    return read(table, asked);
                case "plan":
                    return plan(table, asked);
                case "stream":
                    return stream(table, asked);
                case "write":
                    return write(table, asked);
                case "write columns":
                    return Columns.write((FileStoreTable) table, asked);
                case "compact":
                    return compact((FileStoreTable) table, asked.get("full").booleanValue());
                default:
                    return maintain(table, what, asked);
            }
        }
    }

    /**
     * Answers {@code keys}: the options of tables that this version knows; {@code words}: the values of those that have
     * enumerated ones; {@code older}: the older keys of those that have some.
     */
    private static JsonNode options() throws Exception {
        ObjectNode answer = PaimonProcess.JSON.createObjectNode();
        ArrayNode keys = answer.putArray("keys");
        ObjectNode words = answer.putObject("words");
        ObjectNode older = answer.putObject("older");
        Method typeOf = ConfigOption.class.getDeclaredMethod("getClazz");
        typeOf.setAccessible(true);
        for (ConfigOption<?> one : CoreOptions.getOptions()) {
            keys.add(one.key());
            Class<?> type = (Class<?>) typeOf.invoke(one);
            if (type == Boolean.class) {
                words.putArray(one.key()).add("true").add("false");
            } else if (type.isEnum()) {
                ArrayNode values = words.putArray(one.key());
                for (Object value : type.getEnumConstants()) {
                    values.add(value.toString());
                }
            }
            for (FallbackKey key : one.fallbackKeys()) {
                older.withArray(one.key()).add(key.getKey());
            }
        }
        return answer;
    }

    /** {@code fields}: list of name and type; {@code partition_keys}, {@code primary_keys}, {@code options}, {@code if_not_exists}. */
    private static JsonNode create(Catalog catalog, Identifier name, JsonNode asked) throws Exception {
        Schema.Builder schema = Schema.newBuilder();
        for (JsonNode field : asked.get("fields")) {
            schema.column(field.get(0).textValue(), Values.typeFromJson(field.get(1)));
        }
        schema.partitionKeys(list(asked.get("partition_keys")));
        schema.primaryKey(list(asked.get("primary_keys")));
        schema.options(texts(asked.get("options")));
        catalog.createDatabase(name.getDatabaseName(), true);
        catalog.createTable(name, schema.build(), asked.path("if_not_exists").asBoolean());
        return PaimonProcess.JSON.createObjectNode();
    }

    /** {@code column} gets the type {@code type}. */
    private static JsonNode changeType(Catalog catalog, Identifier name, JsonNode asked) throws Exception {
        SchemaChange change =
                SchemaChange.updateColumnType(asked.get("column").textValue(), Values.typeFromJson(asked.get("type")));
        catalog.alterTable(name, List.of(change), false);
        return PaimonProcess.JSON.createObjectNode();
    }

    /** {@code columns} and {@code where} may be left out. Answers {@code fields}, {@code rows}, {@code kinds}. */
    private static JsonNode read(Table table, JsonNode asked) throws Exception {
        ReadBuilder builder = table.newReadBuilder();
        RowType type = table.rowType();
        TableRead read;
        if (asked.has("where")) {
            builder = builder.withFilter(Filters.fromJson(asked.get("where"), type));
        }
        if (asked.has("columns")) {
            type = type.project(list(asked.get("columns")));
            builder = builder.withProjection(indexes(table.rowType(), type));
        }
        read = builder.newRead().withIOManager(spill());
        if (asked.has("where")) {
            read = read.executeFilter();
        }
        return rows(type, read, builder.newScan().plan().splits());
    }

    /** What a scan with {@code where} leaves: {@code files} by its plan, {@code left} rows of them, before they are filtered. */
    private static JsonNode plan(Table table, JsonNode asked) throws Exception {
        ReadBuilder builder = table.newReadBuilder().withFilter(Filters.fromJson(asked.get("where"), table.rowType()));
        List<Split> splits = builder.newScan().plan().splits();
        int files = 0;
        for (Split split : splits) {
            files += ((DataSplit) split).dataFiles().size();
        }
        ObjectNode answer = (ObjectNode) rows(table.rowType(), builder.newRead().withIOManager(spill()), splits);
        return answer.put("files", files).put("left", answer.get("rows").size());
    }

    /** What came from snapshot {@code from} on, up to the newest one that there is. Answers as {@link #read}. */
    private static JsonNode stream(Table table, JsonNode asked) throws Exception {
        Map<String, String> options = new HashMap<>();
        options.put("scan.mode", "from-snapshot");
        options.put("scan.snapshot-id", String.valueOf(asked.get("from").longValue()));
        Table from = table.copy(options);
        ReadBuilder builder = from.newReadBuilder();
        StreamTableScan scan = builder.newStreamScan();
        Long newest = ((FileStoreTable) table).snapshotManager().latestSnapshotId();
        List<Split> splits = new ArrayList<>();
        while (scan.checkpoint() == null || scan.checkpoint() <= newest) {
            splits.addAll(scan.plan().splits());
        }
        return rows(from.rowType(), builder.newRead().withIOManager(spill()), splits);
    }

    private static JsonNode rows(RowType type, TableRead read, List<Split> splits) throws Exception {
        ObjectNode answer = PaimonProcess.JSON.createObjectNode();
        ArrayNode fields = answer.putArray("fields");
        for (DataField field : type.getFields()) {
            fields.addArray().add(field.name()).add(Values.typeToJson(field.type()));
        }
        ArrayNode rows = answer.putArray("rows");
        ArrayNode kinds = answer.putArray("kinds");
        for (Split split : splits) {
            RecordReader<InternalRow> reader = read.createReader(split);
            try (RecordReaderIterator<InternalRow> iterator = new RecordReaderIterator<>(reader)) {
                while (iterator.hasNext()) {
                    InternalRow row = iterator.next();
                    rows.add(Values.rowToJson(row, type));
                    kinds.add(row.getRowKind().shortString());
                }
            }
        }
        return answer;
    }

    /** {@code rows}, {@code kinds}; {@code overwrite}: a partition, or {@code {}} for what the table's options say. */
    private static JsonNode write(Table table, JsonNode asked) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        if (asked.has("overwrite")) {
            builder = builder.withOverwrite(texts(asked.get("overwrite")));
        }
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            spillOf(write);
            JsonNode given = asked.get("rows");
            List<GenericRow> rows = new ArrayList<>();
            for (int i = 0; i < given.size(); i++) {
                GenericRow row = Values.rowFromJson(given.get(i), table.rowType());
                row.setRowKind(RowKind.fromShortString(asked.get("kinds").get(i).textValue()));
                rows.add(row);
            }
            Buckets.write((FileStoreTable) table, write, rows, asked.has("overwrite"));
            commit.commit(write.prepareCommit());
        }
        return PaimonProcess.JSON.createObjectNode();
    }

    private static JsonNode compact(FileStoreTable table, boolean full) throws Exception {
        Map<String, String> options = new HashMap<>();
        options.put("write-only", "false");
        FileStoreTable writing = table.copy(options);
        if (writing.bucketMode() == BucketMode.BUCKET_UNAWARE) {
            return compactAppended(writing);
        }
        BatchWriteBuilder builder = writing.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            spillOf(write);
            Set<Object> seen = new HashSet<>();
            for (Split split : writing.newSnapshotReader().read().splits()) {
                DataSplit one = (DataSplit) split;
                if (seen.add(List.of(one.partition(), one.bucket()))) {
                    write.compact(one.partition(), one.bucket(), full);
                }
            }
            commit.commit(write.prepareCommit());
        }
        return PaimonProcess.JSON.createObjectNode();
    }

    /** Tables without buckets are compacted by tasks that a coordinator hands out; small files alone are. */
    private static JsonNode compactAppended(FileStoreTable table) throws Exception {
        List<CommitMessage> done = new ArrayList<>();
        BaseAppendFileStoreWrite write = ((AppendOnlyFileStore) table.store()).newWrite("compaction");
        write.withIOManager(spill());
        try {
            for (AppendCompactTask task : new AppendCompactCoordinator(table, false).run()) {
                done.add(task.doCompact(table, write));
            }
        } finally {
            write.close();
        }
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.commit(done);
        }
        return PaimonProcess.JSON.createObjectNode();
    }

    private static JsonNode maintain(Table table, String what, JsonNode asked) throws Exception {
        ObjectNode answer = PaimonProcess.JSON.createObjectNode();
        switch (what) {
            case "create tag":
                if (asked.has("snapshot")) {
                    table.createTag(asked.get("tag").textValue(), asked.get("snapshot").longValue());
                } else {
                    table.createTag(asked.get("tag").textValue());
                }
                return answer;
            case "delete tag":
                table.deleteTag(asked.get("tag").textValue());
                return answer;
            case "create branch":
                if (asked.has("tag")) {
                    table.createBranch(asked.get("branch").textValue(), asked.get("tag").textValue());
                } else {
                    table.createBranch(asked.get("branch").textValue());
                }
                return answer;
            case "delete branch":
                table.deleteBranch(asked.get("branch").textValue());
                return answer;
            case "fast forward":
                table.fastForward(asked.get("branch").textValue());
                return answer;
            case "rollback":
                table.rollbackTo(asked.get("snapshot").longValue());
                return answer;
            case "expire":
                ExpireConfig config = ExpireConfig.builder()
                        .snapshotRetainMin(1)
                        .snapshotRetainMax(asked.get("retain").intValue())
                        .snapshotTimeRetain(Duration.ZERO)
                        .build();
                return answer.put("expired", table.newExpireSnapshots().config(config).expire());
            case "clean orphans":
                long before = asked.get("before_ms").longValue();
                return answer.put(
                        "deleted", new LocalOrphanFilesClean((FileStoreTable) table, before).clean().getDeletedFileCount());
            default:
                throw new IllegalArgumentException("Unknown request " + what);
        }
    }

    private static int[] indexes(RowType all, RowType wanted) {
        return wanted.getFieldNames().stream().mapToInt(all::getFieldIndex).toArray();
    }

    /** By the method that all versions have. */
    private static void spillOf(TableWrite write) throws Exception {
        write.withIOManager(spill());
    }

    private static IOManager spill() throws Exception {
        if (spill == null) {
            spill = IOManager.create(Files.createTempDirectory("paimon").toString());
        }
        return spill;
    }

    private static List<String> list(JsonNode json) {
        List<String> texts = new ArrayList<>();
        json.forEach(one -> texts.add(one.textValue()));
        return texts;
    }

    private static Map<String, String> texts(JsonNode json) {
        Map<String, String> texts = new HashMap<>();
        json.fields().forEachRemaining(one -> texts.put(one.getKey(), one.getValue().isNull() ? null : one.getValue().textValue()));
        return texts;
    }
}
