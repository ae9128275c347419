// What takes the time of training, in C for WebAssembly: `make engine` makes kernels.wasm of it.
// plain.js has the same functions in JavaScript; there they are easier to read. The compiler makes
// SIMD instructions of these loops, which work on four floats at once.
//
// All numbers lie in one memory. An address of 0 says that something is left out.

#define KERNEL(name) __attribute__((export_name(#name))) name

extern double log(double) __attribute__((import_module("math"), import_name("log")));

// Inside a function: its sums may be taken in any order, and so four at a time.
#define ANY_ORDER _Pragma("clang fp reassociate(on)")

static int smaller(int a, int b) { return a < b ? a : b; }

// --- products -----------------------------------------------------------------------------------

// A block of the result has 4 x 8 sums: all stay in registers while `depth` passes by.
enum { ROWS = 4, COLUMNS = 8, DEPTH = 256 };

// Eight columns of b side by side, whatever b's own steps are; what is beyond its edge is 0.
static float panel[DEPTH][COLUMNS];

static void pack(const float *b, int b_row, int b_column, int depth, int columns) {
  for (int k = 0; k < depth; k++)
    for (int j = 0; j < COLUMNS; j++)
      panel[k][j] = j < columns ? b[k * b_row + j * b_column] : 0;
}

// out += a panel, for some rows of a; `rows` is known when this is compiled.
static inline __attribute__((always_inline)) void block(
    const int rows, float *out, int out_row, const float *a, int a_row, int a_column, int depth,
    int columns) {
  float sums[ROWS][COLUMNS] = {0};
  for (int k = 0; k < depth; k++)
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < COLUMNS; j++)
        sums[i][j] += a[i * a_row + k * a_column] * panel[k][j];
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < columns; j++) out[i * out_row + j] += sums[i][j];
}

// out += a b. Each matrix has its own step from row to row, a and b also from column to column: so
// a transposed matrix, or the columns of one head, are products like all others.
void KERNEL(product)(float *out, int out_row, const float *a, int a_row, int a_column,
                     const float *b, int b_row, int b_column, int n, int depth, int m) {
  for (int k = 0; k < depth; k += DEPTH) {
    const int deep = smaller(DEPTH, depth - k);
    for (int j = 0; j < m; j += COLUMNS) {
      const int columns = smaller(COLUMNS, m - j);
      pack(b + k * b_row + j * b_column, b_row, b_column, deep, columns);
      const float *from = a + k * a_column;
      float *to = out + j;
      int i = 0;
      for (; i + ROWS <= n; i += ROWS, from += ROWS * a_row, to += ROWS * out_row)
        block(ROWS, to, out_row, from, a_row, a_column, deep, columns);
      for (; i < n; i++, from += a_row, to += out_row)
        block(1, to, out_row, from, a_row, a_column, deep, columns);
    }
  }
}

// --- rows ---------------------------------------------------------------------------------------

// Each row of out += row.
void KERNEL(add_rows)(float *restrict out, const float *restrict row, int rows, int width) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < width; j++) out[i * width + j] += row[j];
}

// out += the sum of the rows.
void KERNEL(sum_rows)(float *restrict out, const float *restrict a, int rows, int width) {
  for (int i = 0; i < rows; i++)
    for (int j = 0; j < width; j++) out[j] += a[i * width + j];
}

void KERNEL(relu)(float *restrict out, const float *restrict x, int n) {
  for (int i = 0; i < n; i++) out[i] = x[i] < 0 ? 0 : x[i]; // NaN stays
}

void KERNEL(relu_backward)(float *restrict dx, const float *restrict dy,
                           const float *restrict out, int n) {
  for (int i = 0; i < n; i++) dx[i] += out[i] > 0 ? dy[i] : 0;
}

// --- softmax ------------------------------------------------------------------------------------

// exp(x) = 2^n exp(r), with n whole and |r| <= ln(2) / 2; a polynomial gives exp(r) to the last bit
// but one of a float, and n goes into the exponent. Below -50 the result is 0: beside the 1 of a row's
// largest entry, 2e-22 is nothing, and products of such numbers become subnormal, which are slow.
static inline float exponential(float x) {
  const float bounded = x < -50 ? -50 : x > 88 ? 88 : x;
  const float n = __builtin_rintf(bounded * 1.44269504f);
  const float r = bounded - n * 0.693359375f + n * 2.12194440e-4f; // ln 2, in two parts
  float power = 1.9875691500e-4f;
  power = power * r + 1.3981999507e-3f;
  power = power * r + 8.3334519073e-3f;
  power = power * r + 4.1665795894e-2f;
  power = power * r + 1.6666665459e-1f;
  power = power * r + 5.0000001201e-1f;
  power = power * r * r + r + 1;
  const union { int bits; float number; } scale = {.bits = ((int)n + 127) << 23};
  return x < -50 ? 0 : power * scale.number;
}

static float largest(const float *row, int n) {
  float top = -__builtin_inff();
  for (int j = 0; j < n; j++) top = row[j] > top ? row[j] : top;
  return top;
}

// Each entry becomes exp(entry - top); returns their sum.
static float exponentials(float *row, int n, float top) {
  ANY_ORDER
  float total = 0;
  for (int j = 0; j < n; j++) total += row[j] = exponential(row[j] - top);
  return total;
}

// Scores (batch, heads, query, key) become weights, in place: the softmax of scale * score - slope
// * |i - j|. Query i sees the keys up to i where causal, and the first `lengths` where given; the
// other weights are 0.
void KERNEL(softmax)(float *scores, const int *lengths, const float *slopes, int batch, int heads,
                     int queries, int keys, int causal, float scale) {
  float *row = scores;
  for (int sequence = 0; sequence < batch; sequence++) {
    const int length = lengths ? smaller(lengths[sequence], keys) : keys;
    for (int head = 0; head < heads; head++) {
      const float slope = slopes ? slopes[head] : 0;
      for (int i = 0; i < queries; i++, row += keys) {
        const int seen = causal ? smaller(i + 1, length) : length;
        for (int j = 0; j < seen; j++)
          row[j] = row[j] * scale - slope * (float)(i < j ? j - i : i - j);
        const float share = 1 / exponentials(row, seen, largest(row, seen));
        for (int j = 0; j < seen; j++) row[j] *= share;
        for (int j = seen; j < keys; j++) row[j] = 0;
      }
    }
  }
}

// Gradients of weights become those of scores, in place.
void KERNEL(softmax_backward)(float *restrict gradients, const float *restrict weights, int rows,
                              int keys, float scale) {
  ANY_ORDER
  for (int i = 0; i < rows; i++, gradients += keys, weights += keys) {
    float mean = 0;
    for (int j = 0; j < keys; j++) mean += weights[j] * gradients[j];
    for (int j = 0; j < keys; j++) gradients[j] = weights[j] * (gradients[j] - mean) * scale;
  }
}

// The sum of -ln softmax(logits)[target], and its gradient times `scale`; -1: no target.
double KERNEL(cross_entropy)(float *gradients, const float *logits, const int *targets, int rows,
                             int classes, float scale) {
  double loss = 0;
  for (int i = 0; i < rows; i++, gradients += classes, logits += classes) {
    const int target = targets[i];
    for (int j = 0; j < classes; j++) gradients[j] = target < 0 ? 0 : logits[j];
    if (target < 0) continue;
    const float top = largest(logits, classes);
    const float total = exponentials(gradients, classes, top);
    loss += log(total) + top - logits[target];
    for (int j = 0; j < classes; j++) gradients[j] *= scale / total;
    gradients[target] -= scale;
  }
  return loss;
}

// --- layer norm ---------------------------------------------------------------------------------

// Each row gets mean 0 and variance 1, then gain and bias; keeps mean and 1 / deviation.
void KERNEL(layer_norm)(float *restrict out, float *restrict kept, const float *restrict x,
                        const float *restrict gain, const float *restrict bias, int rows, int width,
                        float eps) {
  ANY_ORDER
  for (int i = 0; i < rows; i++, out += width, x += width, kept += 2) {
    float mean = 0, variance = 0;
    for (int j = 0; j < width; j++) mean += x[j];
    mean /= width;
    for (int j = 0; j < width; j++) variance += (x[j] - mean) * (x[j] - mean);
    const float scale = 1 / __builtin_sqrtf(variance / width + eps);
    for (int j = 0; j < width; j++) out[j] = (x[j] - mean) * scale * gain[j] + bias[j];
    kept[0] = mean;
    kept[1] = scale;
  }
}

void KERNEL(layer_norm_backward)(float *restrict dx, float *restrict dgain, float *restrict dbias,
                                 const float *restrict dy, const float *restrict kept,
                                 const float *restrict x, const float *restrict gain, int rows,
                                 int width) {
  ANY_ORDER
  for (int i = 0; i < rows; i++, dx += width, dy += width, x += width, kept += 2) {
    const float mean = kept[0], scale = kept[1];
    float sum = 0, along = 0;
    for (int j = 0; j < width; j++) {
      const float normal = (x[j] - mean) * scale, change = dy[j] * gain[j];
      dgain[j] += dy[j] * normal;
      dbias[j] += dy[j];
      sum += change;
      along += change * normal;
    }
    for (int j = 0; j < width; j++) {
      const float normal = (x[j] - mean) * scale, change = dy[j] * gain[j];
      dx[j] += scale * (change - (sum + along * normal) / width);
    }
  }
}

// --- Adam ---------------------------------------------------------------------------------------

double KERNEL(sum_of_squares)(const float *a, int n) {
  ANY_ORDER
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)a[i] * a[i];
  return sum;
}

// One step; see optimiser.js for what it is given.
void KERNEL(adam)(float *restrict x, const float *restrict gradients, float *restrict means,
                  float *restrict squares, int n, float shrink, double beta1, double beta2,
                  float rate, float root, float eps) {
  const float kept = beta2, new1 = 1 - beta1, new2 = 1 - beta2; // rounded once, as torch does
  for (int i = 0; i < n; i++) {
    const float gradient = gradients[i] * shrink;
    means[i] += (gradient - means[i]) * new1;
    squares[i] = squares[i] * kept + gradient * gradient * new2;
    x[i] -= rate * means[i] / (__builtin_sqrtf(squares[i]) / root + eps);
  }
}
