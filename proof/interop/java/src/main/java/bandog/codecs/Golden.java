package bandog.codecs;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import io.netty.buffer.Unpooled;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.redisson.client.codec.Codec;
import org.redisson.client.handler.State;

/** The lines of a golden file: a label, {@code =>}, and hex. {@code -} is no bytes at all. */
final class Golden {
    private static final PrintStream OUT =
            new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);

    private Golden() {}

    static void section(String title) {
        OUT.println();
        OUT.println("== " + title);
    }

    static void line(String label, String text) {
        OUT.println(label + " => " + text);
    }

    static void line(String label, byte[] bytes) {
        line(label, hex(bytes));
    }

    static String hex(byte[] bytes) {
        return bytes.length == 0 ? "-" : HexFormat.of().formatHex(bytes);
    }

    /** A line with the bytes of a value. */
    static void encoded(Codec codec, String label, Object value) {
        String text;
        try {
            text = hex(bytes(codec, value));
        } catch (Exception refused) {
            text = "refused";
        }
        line(label, text);
    }

    static byte[] bytes(Codec codec, Object value) throws Exception {
        ByteBuf buffer = codec.getValueEncoder().encode(value);
        byte[] bytes = ByteBufUtil.getBytes(buffer);
        buffer.release();
        return bytes;
    }

    /** A line with what Java reads from bytes. */
    static void read(Codec codec, byte[] bytes) {
        String result;
        try {
            Object value = codec.getValueDecoder().decode(Unpooled.wrappedBuffer(bytes), new State());
            result = value == null ? "null" : value.getClass().getName() + " " + quoted(value.toString());
        } catch (Exception refused) {
            result = "refused";
        }
        line("read " + hex(bytes), result);
    }

    static void read(Codec codec, String text) {
        Object value;
        String result;
        try {
            value = codec.getValueDecoder().decode(Unpooled.copiedBuffer(text, StandardCharsets.UTF_8), new State());
            result = value == null ? "null" : value.getClass().getName() + " " + quoted(value.toString());
        } catch (Exception refused) {
            result = "refused";
        }
        line("read " + quoted(text), result);
    }

    /** The text in quotes, in printable ASCII, with the escapes of JSON. */
    static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char unit : text.toCharArray()) {
            if (unit == '"' || unit == '\\') {
                quoted.append('\\').append(unit);
            } else if (unit >= ' ' && unit < 0x7f) {
                quoted.append(unit);
            } else {
                quoted.append(String.format("\\u%04x", (int) unit));
            }
        }
        return quoted.append('"').toString();
    }
}
