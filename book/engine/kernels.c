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

// Adds each entry of x times `scale` to out, but for those that are dropped: bits of its own, made
// of `seed` and its place, are below `limit`.
void KERNEL(dropout)(float *restrict out, const float *restrict x, int n, unsigned seed,
                     unsigned limit, float scale) {
  for (int i = 0; i < n; i++) {
    unsigned bits = seed + (unsigned)i * 0x9e3779b1u;
    bits = (bits ^ (bits >> 16)) * 0x7feb352du;
    bits = (bits ^ (bits >> 15)) * 0x846ca68bu;
    bits ^= bits >> 16;
    out[i] += bits < limit ? 0 : x[i] * scale;
  }
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

// --- gated recurrent units ----------------------------------------------------------------------

static inline float sigmoid(float x) { return 1 / (1 + exponential(-x)); }

static inline float hyperbolic(float x) { return 1 - 2 / (1 + exponential(2 * x)); }

// One step for each row: new states from x = (W_r x, W_z x, W_n x), from hidden, the same of the old
// state, and from the old state h itself. kept: reset gate, update gate and candidate of each row.
void KERNEL(gru)(float *restrict out, int out_row, float *restrict kept, const float *restrict x,
                 int x_row, const float *restrict hidden, const float *restrict h, int h_row,
                 int rows, int width) {
  for (int i = 0; i < rows; i++, out += out_row, x += x_row, h += h_row) {
    float *restrict reset = kept + 3 * i * width, *restrict update = reset + width,
          *restrict candidate = update + width;
    const float *restrict inner = hidden + 3 * i * width;
    for (int j = 0; j < width; j++) {
      reset[j] = sigmoid(x[j] + inner[j]);
      update[j] = sigmoid(x[width + j] + inner[width + j]);
      candidate[j] = hyperbolic(x[2 * width + j] + reset[j] * inner[2 * width + j]);
      out[j] = candidate[j] + update[j] * (h[j] - candidate[j]);
    }
  }
}

// Of the gradients of new states: those of x, of hidden, and of the old state beside hidden.
void KERNEL(gru_backward)(float *restrict dx, int x_row, float *restrict dhidden,
                          float *restrict dh, int dh_row, const float *restrict dy, int y_row,
                          const float *restrict kept, const float *restrict hidden,
                          const float *restrict h, int h_row, int rows, int width) {
  for (int i = 0; i < rows; i++, dx += x_row, dh += dh_row, dy += y_row, h += h_row) {
    const float *restrict reset = kept + 3 * i * width, *restrict update = reset + width,
                *restrict candidate = update + width;
    const float *restrict inner = hidden + 3 * i * width;
    float *restrict din = dhidden + 3 * i * width;
    for (int j = 0; j < width; j++) {
      const float r = reset[j], z = update[j], n = candidate[j];
      const float dn = dy[j] * (1 - z) * (1 - n * n);
      const float dz = dy[j] * (h[j] - n) * z * (1 - z);
      const float dr = dn * inner[2 * width + j] * r * (1 - r);
      dx[j] += dr;
      dx[width + j] += dz;
      dx[2 * width + j] += dn;
      din[j] += dr;
      din[width + j] += dz;
      din[2 * width + j] += dn * r;
      dh[j] += dy[j] * z;
    }
  }
}

// --- additive attention, of one query for each sequence ---------------------------------------------

// scores[b][i] = v . tanh(query[b] + key[b][i]); kept: the tanh.
void KERNEL(additive_scores)(float *restrict scores, float *restrict kept,
                             const float *restrict query, const float *restrict key,
                             const float *restrict v, int batch, int keys, int width) {
  ANY_ORDER
  for (int b = 0; b < batch; b++, query += width)
    for (int i = 0; i < keys; i++, key += width, kept += width) {
      float score = 0;
      for (int j = 0; j < width; j++) {
        kept[j] = hyperbolic(query[j] + key[j]);
        score += v[j] * kept[j];
      }
      *scores++ = score;
    }
}

void KERNEL(additive_scores_backward)(float *restrict dquery, float *restrict dkey,
                                      float *restrict dv, const float *restrict dscores,
                                      const float *restrict kept, const float *restrict v,
                                      int batch, int keys, int width) {
  for (int b = 0; b < batch; b++, dquery += width)
    for (int i = 0; i < keys; i++, dkey += width, kept += width) {
      const float change = *dscores++;
      for (int j = 0; j < width; j++) {
        const float inside = change * v[j] * (1 - kept[j] * kept[j]);
        dv[j] += change * kept[j];
        dquery[j] += inside;
        dkey[j] += inside;
      }
    }
}

// out[b] += the sum of the values of b, each times its weight.
void KERNEL(mix)(float *restrict out, const float *restrict weights, const float *restrict values,
                 int batch, int keys, int width) {
  for (int b = 0; b < batch; b++, out += width)
    for (int i = 0; i < keys; i++, values += width) {
      const float weight = *weights++;
      for (int j = 0; j < width; j++) out[j] += weight * values[j];
    }
}

void KERNEL(mix_backward)(float *restrict dweights, float *restrict dvalues,
                          const float *restrict dy, const float *restrict weights,
                          const float *restrict values, int batch, int keys, int width) {
  ANY_ORDER
  for (int b = 0; b < batch; b++, dy += width)
    for (int i = 0; i < keys; i++, values += width, dvalues += width) {
      const float weight = *weights++;
      float along = 0;
      for (int j = 0; j < width; j++) {
        along += dy[j] * values[j];
        dvalues[j] += weight * dy[j];
      }
      *dweights++ += along;
    }
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
