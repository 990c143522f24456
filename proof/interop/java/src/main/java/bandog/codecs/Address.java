package bandog.codecs;

/** A value inside another one. */
public class Address {
    String city;
    int zip;

    public Address() {}

    /** An address, for other packages. */
    public static Address of(String city, int zip) {
        return new Address(city, zip);
    }

    Address(String city, int zip) {
        this.city = city;
        this.zip = zip;
    }

    @Override
    public String toString() {
        return "Address(" + city + ", " + zip + ")";
    }
}
