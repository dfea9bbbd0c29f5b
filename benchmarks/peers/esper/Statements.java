import com.espertech.esper.common.client.EPCompiled;
import com.espertech.esper.common.client.EventBean;
import com.espertech.esper.common.client.configuration.Configuration;
import com.espertech.esper.common.client.configuration.common.ConfigurationCommonEventTypeBean;
import com.espertech.esper.common.client.util.AccessorStyle;
import com.espertech.esper.compiler.client.CompilerArguments;
import com.espertech.esper.compiler.client.EPCompiler;
import com.espertech.esper.compiler.client.EPCompilerProvider;
import com.espertech.esper.runtime.client.DeploymentOptions;
import com.espertech.esper.runtime.client.EPDeployException;
import com.espertech.esper.runtime.client.EPEventService;
import com.espertech.esper.runtime.client.EPRuntime;
import com.espertech.esper.runtime.client.EPRuntimeProvider;
import com.espertech.esper.runtime.client.UpdateListener;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.IntConsumer;
import java.util.stream.Collectors;

/**
 * Many statements over rows in memory: how long Esper takes to be sent them.
 *
 * <p>Each thread has a runtime of its own with its part of the statements, of each kind as many as the others, and sends
 * it all rows in order of time: so windows and joins, which need that order, are right, and nothing is locked.
 *
 * <p>Arguments: folder, name of the statements, how many of them, rows, those of them that warm up, threads. A line of the
 * file of statements is a text with parameters and its constants, with tabs between. A text is compiled once.
 */
public final class Statements {
    private final Configuration configuration = new Configuration();
    private final EPCompiler compiler = EPCompilerProvider.getCompiler();
    private final Map<String, EPCompiled> compiled = new HashMap<>();
    private final long[] counts;

    private Statements(int count) {
        counts = new long[count];
        var records = new ConfigurationCommonEventTypeBean();
        records.setAccessorStyle(AccessorStyle.PUBLIC);
        configuration.getCommon().addEventType("s", Row.class.getName(), records);
        configuration.getCommon().addEventType("e", Few.class.getName(), records);
        var runtime = configuration.getRuntime();
        runtime.getThreading().setInternalTimerEnabled(false);
        runtime.getThreading().setListenerDispatchPreserveOrder(false);
        runtime.getThreading().setInsertIntoDispatchPreserveOrder(false);
        runtime.getExecution().setDisableLocking(true);
    }

    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        int count = Integer.parseInt(arguments[2]);
        int rows = Integer.parseInt(arguments[3]);
        int warm = Integer.parseInt(arguments[4]);
        int threads = Integer.parseInt(arguments[5]);
        List<String> lines = Files.readAllLines(folder.resolve(arguments[1] + ".epl")).subList(0, count);
        Statements statements = new Statements(count);
        long began = System.nanoTime();
        List<EPEventService> services = statements.deploy(lines, threads);
        double deployed = (System.nanoTime() - began) / 1e9;
        Object[] feed = Feed.read(folder, rows);
        int first = (int) ((long) feed.length * warm / rows);
        send(services, feed, 0, first);
        System.gc();
        began = System.nanoTime();
        send(services, feed, first, feed.length);
        double seconds = (System.nanoTime() - began) / 1e9;
        System.out.printf(
                "{\"seconds\": %.6f, \"rows\": %d, \"counts\": [%s], \"version\": \"%s\","
                        + " \"notes\": {\"deployed in seconds\": %.1f}}%n",
                seconds, rows - warm, statements.counted(), version(), deployed);
        System.exit(0);
    }

    private List<EPEventService> deploy(List<String> lines, int threads) throws Exception {
        List<EPRuntime> runtimes = new ArrayList<>();
        List<Map<Integer, String[]>> hands = new ArrayList<>();
        for (int part = 0; part < threads; part++) {
            runtimes.add(EPRuntimeProvider.getRuntime("part-" + part, configuration));
            hands.add(new TreeMap<>());
        }
        Map<String, Integer> dealt = new HashMap<>();
        for (int number = 0; number < lines.size(); number++) {
            String[] parts = lines.get(number).split("\t");
            if (!compiled.containsKey(parts[0])) {
                compiled.put(parts[0], compiler.compile(parts[0], new CompilerArguments(configuration)));
            }
            int part = (dealt.merge(parts[0], 1, Integer::sum) + parts[0].length()) % threads;
            hands.get(part).put(number, parts);
        }
        together(threads, part -> hands.get(part).forEach((number, parts) -> deploy(runtimes.get(part), number, parts)));
        return runtimes.stream().map(EPRuntime::getEventService).toList();
    }

    private void deploy(EPRuntime runtime, int number, String[] parts) {
        DeploymentOptions options = new DeploymentOptions();
        options.setStatementSubstitutionParameter(
                statement -> {
                    for (int place = 1; place < parts.length; place++) {
                        statement.setObject("p" + place, constant(parts[place]));
                    }
                });
        try {
            runtime.getDeploymentService()
                    .deploy(compiled.get(parts[0]), options)
                    .getStatements()[0]
                    .addListener(parts[0].contains("count(") ? windows(number) : answers(number));
        } catch (EPDeployException problem) {
            throw new IllegalStateException(parts[0], problem);
        }
    }

    private UpdateListener answers(int number) {
        return (rows, gone, statement, runtime) -> counts[number] += rows == null ? 0 : rows.length;
    }

    private UpdateListener windows(int number) {
        return (rows, gone, statement, runtime) -> {
            if (rows != null) {
                for (EventBean row : rows) {
                    counts[number] += (Long) row.get("n");
                }
            }
        };
    }

    /** A letter says its type. */
    private static Object constant(String written) {
        String value = written.substring(1);
        return switch (written.charAt(0)) {
            case 'i' -> Integer.valueOf(value);
            case 'l' -> Long.valueOf(value);
            case 'd' -> Double.valueOf(value);
            default -> value;
        };
    }

    private static void send(List<EPEventService> services, Object[] feed, int first, int behind) throws Exception {
        together(
                services.size(),
                part -> {
                    EPEventService service = services.get(part);
                    for (int place = first; place < behind; place++) {
                        Object row = feed[place];
                        service.sendEventBean(row, row instanceof Row ? "s" : "e");
                    }
                });
    }

    /** Does something for each part, in a thread of its own; the first problem is raised. */
    private static void together(int parts, IntConsumer work) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(parts);
        try {
            List<Future<?>> done = new ArrayList<>();
            for (int part = 0; part < parts; part++) {
                int mine = part;
                done.add(threads.submit(() -> work.accept(mine)));
            }
            for (Future<?> each : done) {
                each.get();
            }
        } finally {
            threads.shutdownNow();
        }
    }

    private String counted() {
        return Arrays.stream(counts).mapToObj(Long::toString).collect(Collectors.joining(", "));
    }

    private static String version() {
        String jar = EPRuntime.class.getProtectionDomain().getCodeSource().getLocation().getPath();
        return jar.replaceAll(".*-|\\.jar$", "");
    }
}
