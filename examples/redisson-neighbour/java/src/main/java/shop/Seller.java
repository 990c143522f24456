package shop;

import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;

/** Sells apples from a stock that a Rust program sells from, too: one map and one lock. src/main.rs does the same. */
public final class Seller {
    private Seller() {}

    public static void main(String[] args) throws InterruptedException {
        Config config = new Config();
        config.setLockWatchdogTimeout(5_000);
        config.useSingleServer().setAddress(args.length > 0 ? args[0] : "redis://localhost:6379");
        RedissonClient redisson = Redisson.create(config);
        RMap<String, String> stock = redisson.getMap("stock", StringCodec.INSTANCE);
        RLock lock = redisson.getLock("stock-lock");
        System.out.println("ready");
        String left = "";
        while (!"0".equals(left)) {
            lock.lock();
            try {
                // Another seller changes the number between this read and the write, if it does not take the lock.
                left = stock.get("apple");
                if (left != null && !"0".equals(left)) {
                    int next = Integer.parseInt(left) - 1;
                    stock.fastPut("apple", Integer.toString(next));
                    System.out.println("Java has sold an apple, " + next + " are left");
                }
            } finally {
                lock.unlock();
            }
            if (left == null) {
                Thread.sleep(20); // the shop is not open yet
            }
        }
        System.out.println("sold out");
        redisson.shutdown();
    }
}
