package snapline;

import java.lang.reflect.Constructor;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.BiConsumer;

import org.apache.paimon.crosspartition.BucketAssigner;
import org.apache.paimon.crosspartition.ExistingProcessor;
import org.apache.paimon.crosspartition.IndexBootstrap;
import org.apache.paimon.crosspartition.KeyPartPartitionKeyExtractor;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.index.HashBucketAssigner;
import org.apache.paimon.index.SimpleHashBucketAssigner;
import org.apache.paimon.table.BucketMode;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.RowPartitionAllPrimaryKeyExtractor;
import org.apache.paimon.table.sink.RowPartitionKeyExtractor;
import org.apache.paimon.utils.ProjectToRowFunction;

/** Writes rows to the buckets that Paimon gives them, also where the table alone does not say which those are. */
final class Buckets {
    private Buckets() {}

    static void write(FileStoreTable table, BatchTableWrite write, List<? extends InternalRow> rows, boolean overwrites) throws Exception {
        BucketMode mode = table.bucketMode();
        if (mode == BucketMode.HASH_DYNAMIC) {
            writeHashed(table, write, rows, overwrites);
        } else if (mode.name().equals("KEY_DYNAMIC") || mode.name().equals("CROSS_PARTITION")) {
            // The older name is that of 1.0.
            writeAcross(table, write, rows);
        } else {
            for (InternalRow row : rows) {
                write.write(row);
            }
        }
    }

    private static void writeHashed(FileStoreTable table, BatchTableWrite write, List<? extends InternalRow> rows, boolean overwrites)
            throws Exception {
        long target = table.coreOptions().dynamicBucketTargetRowNum();
        int most = Integer.parseInt(table.options().getOrDefault("dynamic-bucket.max-buckets", "-1"));
        org.apache.paimon.index.BucketAssigner assigner = overwrites
                ? made(SimpleHashBucketAssigner.class, 1, 0, target, most)
                : made(HashBucketAssigner.class, table.snapshotManager(), UUID.randomUUID().toString(), table.store().newIndexFileHandler(),
                        1, 1, 0, target, most);
        RowPartitionKeyExtractor extractor = new RowPartitionKeyExtractor(table.schema());
        for (InternalRow row : rows) {
            write.write(row, assigner.assign(extractor.partition(row), extractor.trimmedPrimaryKey(row).hashCode()));
        }
    }

    /** An assigner; the constructors of older versions lack the last argument, the number of buckets at most. */
    private static <T> T made(Class<T> kind, Object... arguments) throws Exception {
        for (Constructor<?> constructor : kind.getConstructors()) {
            int count = constructor.getParameterCount();
            if (count == arguments.length || count == arguments.length - 1) {
                return kind.cast(constructor.newInstance(Arrays.copyOf(arguments, count)));
            }
        }
        throw new UnsupportedOperationException("no constructor of " + kind);
    }

    /**
     * Keys that move from one partition to another: what holds them is read from the table first. As {@code GlobalIndexAssigner}
     * does it, with a map in the place of RocksDB.
     */
    private static void writeAcross(FileStoreTable table, BatchTableWrite write, List<? extends InternalRow> rows) throws Exception {
        BucketAssigner assigner = new BucketAssigner();
        BiConsumer<InternalRow, Integer> collect = (row, bucket) -> {
            try {
                write.write(row, bucket);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        };
        ExistingProcessor existing = ExistingProcessor.create(
                table.coreOptions().mergeEngine(), new ProjectToRowFunction(table.rowType(), table.partitionKeys()), assigner, collect);
        Map<BinaryRow, Place> places = new HashMap<>();
        KeyPartPartitionKeyExtractor held = new KeyPartPartitionKeyExtractor(table.schema());
        int last = IndexBootstrap.bootstrapType(table.schema()).getFieldCount() - 1;
        new IndexBootstrap(table).bootstrap(1, 0, row -> {
            Place place = new Place(held.partition(row).copy(), row.getInt(last));
            assigner.bootstrapBucket(place.partition, place.bucket);
            places.put(held.trimmedPrimaryKey(row).copy(), place);
        });
        int target = (int) table.coreOptions().dynamicBucketTargetRowNum();
        RowPartitionAllPrimaryKeyExtractor given = new RowPartitionAllPrimaryKeyExtractor(table.schema());
        for (InternalRow row : rows) {
            BinaryRow key = given.trimmedPrimaryKey(row).copy();
            BinaryRow partition = given.partition(row).copy();
            Place place = places.get(key);
            if (place != null && place.partition.equals(partition)) {
                collect.accept(row, place.bucket);
            } else if (place == null || existing.processExists(row, place.partition, place.bucket)) {
                int bucket = assigner.assignBucket(partition, any -> true, target);
                places.put(key, new Place(partition, bucket));
                collect.accept(row, bucket);
            }
        }
    }

    private static final class Place {
        private final BinaryRow partition;
        private final int bucket;

        private Place(BinaryRow partition, int bucket) {
            this.partition = partition;
            this.bucket = bucket;
        }
    }
}
