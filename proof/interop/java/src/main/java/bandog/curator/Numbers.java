package bandog.curator;

import java.io.File;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.zookeeper.server.DataTree;
import org.apache.zookeeper.server.persistence.FileSnap;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * A program that sets the next number of a node's children in the data of a server that does not run. Its arguments are
 * the folder of the data, the path of the node, and the number. It needs the classes of the server.
 */
public final class Numbers {
    private Numbers() {}

    public static void main(String[] args) throws Exception {
        File data = new File(args[0]);
        FileTxnSnapLog log = new FileTxnSnapLog(data, data);
        DataTree tree = new DataTree();
        ConcurrentHashMap<Long, Integer> sessions = new ConcurrentHashMap<>();
        long last = log.restore(tree, sessions, (header, transaction, digest) -> {});
        tree.setCversionPzxid(args[1], Integer.parseInt(args[2]), last);
        File folder = log.getSnapDir();
        log.close();
        FileSnap snapshots = new FileSnap(folder);
        snapshots.serialize(tree, sessions, new File(folder, "snapshot." + Long.toHexString(last)), true);
        snapshots.close();
    }
}
