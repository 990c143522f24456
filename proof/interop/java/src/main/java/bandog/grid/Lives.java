package bandog.grid;

import bandog.Kind;
import java.util.Collection;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.redisson.api.RLiveObjectService;
import org.redisson.api.condition.Conditions;

/** The verbs of RLiveObjectService, for objects of the class {@link Person}. The name of an object is its id. */
final class Lives {
    private Lives() {}

    static String obey(RLiveObjectService service, String verb, String name, String[] args) {
        Long id = Long.valueOf(name);
        switch (verb) {
            case "persist":
                Person person = new Person();
                person.setId(id);
                person.setName(args[0]);
                person.setAge(Integer.valueOf(args[1]));
                service.persist(person);
                return "done";
            case "get":
                return shown(service.get(Person.class, id));
            case "name":
                service.get(Person.class, id).setName(args[0]);
                return "done";
            case "age":
                service.get(Person.class, id).setAge(Integer.valueOf(args[0]));
                return "done";
            case "find":
                return ids(service.find(Person.class, Conditions.eq("name", args[0])));
            case "from":
                return ids(service.find(Person.class, Conditions.ge("age", Integer.valueOf(args[0]))));
            case "ids":
                Iterable<Long> ids = service.findIds(Person.class);
                return StreamSupport.stream(ids.spliterator(), false)
                        .sorted()
                        .map(String::valueOf)
                        .collect(Collectors.joining(" "));
            case "delete":
                return String.valueOf(service.delete(Person.class, id));
            default:
                throw Kind.unknown(verb);
        }
    }

    private static String shown(Person person) {
        if (person == null) {
            return "null";
        }
        return person.getName() + " " + person.getAge() + " " + person.getNick();
    }

    private static String ids(Collection<Person> found) {
        return found.stream().map(Person::getId).sorted().map(String::valueOf).collect(Collectors.joining(" "));
    }
}
