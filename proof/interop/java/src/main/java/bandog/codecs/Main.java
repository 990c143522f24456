package bandog.codecs;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.Date;
import java.util.HexFormat;
import java.util.List;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.DoubleCodec;
import org.redisson.client.codec.IntegerCodec;
import org.redisson.client.codec.LongCodec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.JsonJacksonCodec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.codec.TypedJsonJacksonCodec;

/**
 * Prints the bytes that the codecs and objects of Redisson write. The arguments are the name of a file, and for
 * {@code pack} the URL of an empty server.
 */
public final class Main {
    private Main() {}

    public static void main(String[] args) throws Exception {
        if (Runtime.version().feature() > 18) {
            throw new IllegalStateException("run this with Java 17: Java 19 writes other digits of some doubles");
        }
        switch (args[0]) {
            case "text" -> text();
            case "kryo5" -> kryo5();
            case "typed-json" -> typedJson();
            case "tagged-json" -> taggedJson();
            case "number" -> number();
            case "hash" -> Hashes.print();
            case "pack" -> Packs.print(args[1]);
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void text() {
        for (Codec codec : List.of(new StringCodec(), new LongCodec(), new IntegerCodec(), new DoubleCodec())) {
            Golden.section(codec.getClass().getSimpleName());
            Samples.shortScalars().forEach((label, value) -> Golden.encoded(codec, label, value));
            String texts = "5,+5,05, 5,-0,1.5,1e3,NaN,9223372036854775807,9223372036854775808";
            Golden.read(codec, "");
            List.of(texts.split(",")).forEach(text -> Golden.read(codec, text));
        }
        Golden.section("ByteArrayCodec");
        for (String hex : List.of("", "00", "0102ff")) {
            byte[] bytes = HexFormat.of().parseHex(hex);
            Golden.encoded(ByteArrayCodec.INSTANCE, "bytes " + Golden.hex(bytes), bytes);
        }
    }

    private static void kryo5() {
        Codec codec = new Kryo5Codec();
        Golden.section("scalars");
        Samples.scalars().forEach((label, value) -> Golden.encoded(codec, label, value));
        Golden.section("objects");
        Golden.encoded(codec, "list", new ArrayList<>(List.of("a", 1)));
        Golden.encoded(codec, "bytes", new byte[] {1, 2});
        Golden.encoded(codec, "address", new Address("Ulm", 1));
        Golden.encoded(codec, "colour", Colour.RED);
        Golden.encoded(codec, "date", new Date(1790000000000L));
        Golden.section("read");
        String[] read = {
            "0384616263", "0380", "0381", "03c100", "03e1", "036162", "0383c3a9c3a9", "0382f09f9880", "0384f09f9880",
            "0382c0", "0382ff", "0382eda080", "0384eda0bdedb880", "0502", "0503", "020a00", "", "61", "0b", "0c",
            "09ffffffffffffffffff", "02ffffffffff", "0200ff", "8200", "0600", "0900", "07d800", "0700d8",
        };
        List.of(read).forEach(hex -> Golden.read(codec, HexFormat.of().parseHex(hex)));
    }

    private static void typedJson() {
        Codec codec = new TypedJsonJacksonCodec(Object.class);
        Golden.section("scalars");
        Samples.shortScalars().forEach((label, value) -> Golden.encoded(codec, label, value));
        Golden.section("objects");
        Jsons.objects().forEach((label, value) -> Golden.encoded(codec, label, value));
        Golden.section("read as a User");
        readJson(new TypedJsonJacksonCodec(User.class), """
                {}
                {'age':7,'unknown':[{}]}
                {'score':'NaN'}
                {'score':'Infinity'}
                {'score':'-INF'}
                {'score':1}
                {'score':1e10}
                {'name':'é😀\\u00e9\\ud83d\\ude00\\/'}
                {'age':7.0}
                {'age':'7'}
                {'id':-0}
                {'photo':'AQI='}
                {'tags':['a']}
                {'age':7,'age':8}
                {'age':7}x
                {'age':07}
                \t{'age' : 7 }\t
                {'counts':{'x':1}}
                null
                """);
        Golden.read(new TypedJsonJacksonCodec(User.class), "");
        Golden.section("read as a String");
        readJson(new TypedJsonJacksonCodec(String.class), """
                'a'
                '\\ud800'
                a
                5
                'a\001'
                """);
    }

    private static void taggedJson() {
        Codec codec = new JsonJacksonCodec();
        Golden.section("scalars");
        Samples.shortScalars().forEach((label, value) -> Golden.encoded(codec, label, value));
        Golden.section("objects");
        Jsons.objects().forEach((label, value) -> Golden.encoded(codec, label, value));
        Golden.section("read");
        readJson(codec, """
                5
                1.5
                'a'
                true
                null
                [1]
                ['a']
                {}
                {'a':1}
                ['java.lang.Long',5]
                ['java.lang.Integer',5]
                ['java.util.ArrayList',[1,['java.lang.Long',2]]]
                {'@class':'java.util.HashMap','a':1}
                {'a':1,'@class':'java.util.HashMap'}
                ['java.util.HashMap',{'a':1}]
                9223372036854775807
                18446744073709551615
                'NaN'
                {'@class':'org.redisson.spring.cache.NullValue'}
                {'@class':'no.such.Thing'}
                {'age':7,'@class':'bandog.codecs.User'}
                {'@class':'bandog.codecs.User','id':5}
                {'@class':'bandog.codecs.User','id':['java.lang.Long',5]}
                {'@class':'bandog.codecs.User','owner':5}
                {'@class':'bandog.codecs.User','owner':['java.lang.Long',5]}
                {'@class':'bandog.codecs.User','age':5}
                {'@class':'bandog.codecs.User','score':1.5}
                {'@class':'bandog.codecs.User','score':'NaN'}
                {'@class':'bandog.codecs.User','tags':['a']}
                {'@class':'bandog.codecs.User','tags':['java.util.ArrayList',['a']]}
                {'@class':'bandog.codecs.User','tags':['java.util.HashSet',['a']]}
                {'@class':'bandog.codecs.User','visits':['java.util.ArrayList',[5]]}
                {'@class':'bandog.codecs.User','visits':['java.util.ArrayList',[['java.lang.Long',5]]]}
                {'@class':'bandog.codecs.User','counts':{'x':1}}
                {'@class':'bandog.codecs.User','counts':{'@class':'java.util.HashMap','x':1}}
                {'@class':'bandog.codecs.User','address':{'city':'Ulm'}}
                {'@class':'bandog.codecs.User','address':{'@class':'bandog.codecs.Address','city':'Ulm'}}
                {'@class':'bandog.codecs.User','former':['java.util.ArrayList',[{'@class':'bandog.codecs.Address','zip':1}]]}
                {'@class':'bandog.codecs.User','colour':'RED'}
                {'@class':'bandog.codecs.User','photo':'AQI='}
                {'@class':'bandog.codecs.User','digits':[1]}
                {'@class':'bandog.codecs.User','words':['a']}
                """);
    }

    /** Lines with what Java reads from each line of a text, in which ' is a quote. */
    private static void readJson(Codec codec, String texts) {
        texts.lines().forEach(text -> Golden.read(codec, text.replace('\'', '"')));
    }

    private static void number() {
        Golden.section("doubles: bits, Double.toString, the text of RAtomicDouble");
        for (double value : Samples.doubles()) {
            Golden.line(Samples.label(value), Double.toString(value) + " " + plain(value));
        }
        Golden.section("floats: bits, Float.toString");
        for (float value : Samples.floats()) {
            Golden.line(Samples.label(value), Float.toString(value));
        }
        Golden.section("read");
        String texts = "100.0,10000000000,0.00000010,5,-0,1e5,1E5,1.5E-3, 1,inf,-inf,nan,NaN,Infinity,0x1p3,1_0,.5,5.,1d,1f";
        Golden.read(DoubleCodec.INSTANCE, "");
        List.of(texts.split(",")).forEach(text -> Golden.read(DoubleCodec.INSTANCE, text));
    }

    /** The text that RAtomicDouble sends. */
    private static String plain(double value) {
        return Double.isFinite(value) ? BigDecimal.valueOf(value).toPlainString() : "refused";
    }
}
