/** A row of the stream s. What may be NULL is boxed, the rest is not. */
public record Row(int k, int code, long b, double x, Double y, String t, boolean flag, long at) {}
