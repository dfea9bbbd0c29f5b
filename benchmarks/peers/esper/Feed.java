import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;

/** The rows of both streams in order of time, as objects, made before anything is measured. */
final class Feed {
    static Object[] read(Path folder, int rows) throws IOException {
        List<Row> many = new ArrayList<>();
        List<Few> few = new ArrayList<>();
        Map<String, String> texts = new HashMap<>();
        try (Stream<String> lines = Files.lines(folder.resolve("s.csv"))) {
            lines.limit(rows).forEach(line -> many.add(row(line.split(","), texts)));
        }
        try (Stream<String> lines = Files.lines(folder.resolve("e.csv"))) {
            lines.forEach(line -> few.add(few(line.split(","))));
        }
        List<Object> merged = new ArrayList<>();
        int next = 0;
        for (Row row : many) {
            for (; next < few.size() && few.get(next).at() < row.at(); next++) {
                merged.add(few.get(next));
            }
            merged.add(row);
        }
        long last = many.get(many.size() - 1).at();
        for (; next < few.size() && few.get(next).at() <= last; next++) {
            merged.add(few.get(next));
        }
        return merged.toArray();
    }

    private static Row row(String[] p, Map<String, String> texts) {
        return new Row(
                Integer.parseInt(p[0]),
                Integer.parseInt(p[1]),
                Long.parseLong(p[2]),
                Double.parseDouble(p[3]),
                p[4].isEmpty() ? null : Double.valueOf(p[4]),
                texts.computeIfAbsent(p[5], text -> text),
                p[6].equals("true"),
                Long.parseLong(p[7]));
    }

    private static Few few(String[] p) {
        return new Few(Integer.parseInt(p[0]), Integer.parseInt(p[1]), Long.parseLong(p[2]));
    }
}
