/** A row of the stream e. */
public record Few(int k, int level, long at) {}
