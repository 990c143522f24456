package bandog.grid;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import org.redisson.api.RReliableTopic;

/** The verbs of RReliableTopic. */
final class Reliables {
    private final RReliableTopic topic;
    private final List<Object> received = new CopyOnWriteArrayList<>();

    Reliables(RReliableTopic topic) {
        this.topic = topic;
    }

    String obey(String verb, String[] args) {
        switch (verb) {
            case "publish":
                return Words.of(topic.publish(Words.value(args[0])));
            case "listen":
                return topic.addListener(Object.class, (name, message) -> received.add(message));
            case "unlisten":
                topic.removeListener(args[0]);
                return "removed";
            case "received":
                return Words.of(new ArrayList<>(received));
            case "size":
                return Words.of(topic.size());
            case "subscribers":
                return Words.of(topic.countSubscribers());
            default:
                return Words.whole(topic, verb, args);
        }
    }
}
