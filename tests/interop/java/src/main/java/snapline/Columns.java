package snapline;

import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.List;

import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.sink.TableWrite;
import org.apache.paimon.types.RowType;

/** Some columns of rows, which tables with data evolution take. By names of methods: earlier versions do not have them. */
final class Columns {
    private Columns() {}

    /** {@code columns}, {@code rows} of these; {@code first_row_id} of the rows that get them, of new rows none. */
    static JsonNode write(FileStoreTable table, JsonNode asked) throws Exception {
        List<String> names = new ArrayList<>();
        asked.get("columns").forEach(one -> names.add(one.textValue()));
        RowType type = table.rowType().project(names);
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
            TableWrite.class.getMethod("withWriteType", RowType.class).invoke(write, type);
            for (JsonNode row : asked.get("rows")) {
                write.write(Values.rowFromJson(row, type));
            }
            List<CommitMessage> messages = write.prepareCommit();
            if (asked.has("first_row_id")) {
                for (CommitMessage message : messages) {
                    assign(((CommitMessageImpl) message).newFilesIncrement().newFiles(), asked.get("first_row_id").longValue());
                }
            }
            commit.commit(messages);
        }
        return PaimonProcess.JSON.createObjectNode();
    }

    private static void assign(List<DataFileMeta> files, long firstRowId) throws Exception {
        Method assigned = DataFileMeta.class.getMethod("assignFirstRowId", long.class);
        for (int i = 0; i < files.size(); i++) {
            files.set(i, (DataFileMeta) assigned.invoke(files.get(i), firstRowId));
        }
    }
}
