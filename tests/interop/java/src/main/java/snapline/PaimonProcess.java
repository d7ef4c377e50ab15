package snapline;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;

import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * Paimon's table API behind standard input and output: a JSON object a line each way.
 *
 * <p>Asked: {@code {"do": …, "warehouse": …, "table": …, …}}, see {@link Requests}. Answered: an object that depends on what was asked, or
 * {@code {"error": …, "trace": …}}.
 */
public final class PaimonProcess {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final int MOST_TRACE = 3000;

    private PaimonProcess() {}

    public static void main(String[] arguments) throws Exception {
        // Whatever a library prints must not come between the answers.
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, "UTF-8");
        System.setOut(System.err);
        BufferedReader asked = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = asked.readLine(); line != null; line = asked.readLine()) {
            answers.println(JSON.writeValueAsString(answer(line)));
            answers.flush();
        }
    }

    private static JsonNode answer(String line) {
        try {
            return Requests.carryOut(JSON.readTree(line));
        } catch (Throwable error) {
            StringWriter trace = new StringWriter();
            error.printStackTrace(new PrintWriter(trace));
            ObjectNode answer = JSON.createObjectNode();
            answer.put("error", String.valueOf(error));
            answer.put("trace", trace.toString().substring(0, Math.min(trace.toString().length(), MOST_TRACE)));
            return answer;
        }
    }
}
