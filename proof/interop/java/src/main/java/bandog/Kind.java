package bandog;

/** One kind of a library's objects: executes the verbs of this kind. */
public interface Kind {
    /**
     * Executes a verb on the object with this name, on the calling thread.
     *
     * @return the answer, which must not contain a newline
     */
    String obey(String verb, String name, String... args) throws Exception;

    /** The exception for a verb that the kind does not have. */
    static IllegalArgumentException unknown(String verb) {
        return new IllegalArgumentException("unknown verb " + verb);
    }
}
