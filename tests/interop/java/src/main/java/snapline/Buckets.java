package snapline;

import java.util.List;
import java.util.UUID;

import org.apache.paimon.crosspartition.GlobalIndexAssigner;
import org.apache.paimon.crosspartition.IndexBootstrap;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.index.BucketAssigner;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.index.SimpleHashBucketAssigner;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;

/** Writes rows to the buckets that Paimon gives them, also where the table alone does not say which those are. */
final class Buckets {
    private static final long CACHE_BYTES = 1 << 20;

    private Buckets() {}

    static void write(FileStoreTable table, BatchTableWrite write, List<? extends InternalRow> rows, boolean overwrites, IOManager spill)
            throws Exception {
        BucketMode mode = table.bucketMode();
        if (mode == BucketMode.HASH_DYNAMIC) {
            writeHashed(table, write, rows, overwrites);
        } else if (mode == BucketMode.KEY_DYNAMIC) {
            writeAcross(table, write, rows, spill);
        } else {
            for (InternalRow row : rows) {
                write.write(row);
            }
        }
    }

    private static void writeHashed(FileStoreTable table, BatchTableWrite write, List<? extends InternalRow> rows, boolean overwrites)
            throws Exception {
        long target = table.coreOptions().dynamicBucketTargetRowNum();
        int most = table.coreOptions().dynamicBucketMaxBuckets();
        BucketAssigner assigner = overwrites
                ? new SimpleHashBucketAssigner(1, 0, target, most)
                : new HashBucketAssigner(
                        table.snapshotManager(), UUID.randomUUID().toString(), table.store().newIndexFileHandler(), 1, 1, 0, target, most);
        RowPartitionKeyExtractor extractor = new RowPartitionKeyExtractor(table.schema());
        for (InternalRow row : rows) {
            write.write(row, assigner.assign(extractor.partition(row), extractor.trimmedPrimaryKey(row).hashCode()));
        }
    }

    /** Keys that move from one partition to another: what holds them is read from the table first. */
    private static void writeAcross(FileStoreTable table, BatchTableWrite write, List<? extends InternalRow> rows, IOManager spill)
            throws Exception {
        try (GlobalIndexAssigner assigner = new GlobalIndexAssigner(table)) {
            assigner.open(CACHE_BYTES, spill, 1, 0, (row, bucket) -> {
                try {
                    write.write(row, bucket);
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
            new IndexBootstrap(table).bootstrap(1, 0, row -> {
                try {
                    assigner.bootstrapKey(row);
                } catch (Exception error) {
                    throw new IllegalStateException(error);
                }
            });
            assigner.endBoostrap(false);
            for (InternalRow row : rows) {
                assigner.processInput(row);
            }
        }
    }
}
