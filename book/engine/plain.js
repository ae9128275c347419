// The kernels of kernels.c in plain JavaScript, for browsers without SIMD in WebAssembly: the same
// names and the same arguments. An address counts bytes, as in WebAssembly, and a float has 4.

const COLUMNS = 4; // of b that a block of a product takes at once: sums that stay in registers

/** The kernels over a memory with the views `floats` and `integers`, new ones as it grows. */
export function plainKernels(memory) {
  /** out += a b; every matrix has its own step from row to row, a and b from column to column. */
  function product(out, outRow, a, aRow, aColumn, b, bRow, bColumn, n, depth, m) {
    const { floats } = memory;
    const [outAt, aAt, bAt] = [out >> 2, a >> 2, b >> 2];
    const whole = m - (m % COLUMNS);
    for (let i = 0; i < n; i += 1) {
      for (let j = 0; j < whole; j += COLUMNS) {
        let [left, right] = [aAt + i * aRow, bAt + j * bColumn];
        let [first, second, third, fourth] = [0, 0, 0, 0];
        for (let k = 0; k < depth; k += 1, left += aColumn, right += bRow) {
          const factor = floats[left];
          first += factor * floats[right];
          second += factor * floats[right + bColumn];
          third += factor * floats[right + 2 * bColumn];
          fourth += factor * floats[right + 3 * bColumn];
        }
        const at = outAt + i * outRow + j;
        floats[at] += first;
        floats[at + 1] += second;
        floats[at + 2] += third;
        floats[at + 3] += fourth;
      }
      for (let j = whole; j < m; j += 1) {
        let [left, right, sum] = [aAt + i * aRow, bAt + j * bColumn, 0];
        for (let k = 0; k < depth; k += 1, left += aColumn, right += bRow) {
          sum += floats[left] * floats[right];
        }
        floats[outAt + i * outRow + j] += sum;
      }
    }
  }

  /** Each row of out += row. */
  function add_rows(out, row, rows, width) {
    const { floats } = memory;
    for (let [at, i] = [out >> 2, 0]; i < rows; i += 1) {
      for (let j = 0; j < width; j += 1, at += 1) floats[at] += floats[(row >> 2) + j];
    }
  }

  /** out += the sum of the rows. */
  function sum_rows(out, a, rows, width) {
    const { floats } = memory;
    for (let [at, i] = [a >> 2, 0]; i < rows; i += 1) {
      for (let j = 0; j < width; j += 1, at += 1) floats[(out >> 2) + j] += floats[at];
    }
  }

  function relu(out, x, n) {
    const { floats } = memory;
    for (let i = 0; i < n; i += 1) {
      const value = floats[(x >> 2) + i];
      floats[(out >> 2) + i] = value < 0 ? 0 : value; // NaN stays
    }
  }

  function relu_backward(dx, dy, out, n) {
    const { floats } = memory;
    for (let i = 0; i < n; i += 1) {
      if (floats[(out >> 2) + i] > 0) floats[(dx >> 2) + i] += floats[(dy >> 2) + i];
    }
  }

  /** Adds x times `scale` to out, but for the entries whose own bits, of `seed`, are below `limit`. */
  function dropout(out, x, n, seed, limit, scale) {
    const { floats } = memory;
    for (let i = 0; i < n; i += 1) {
      // As bits are mixed in Wellons' hash of 32 bits.
      let bits = (seed + Math.imul(i, 0x9e3779b1)) | 0;
      bits = Math.imul(bits ^ (bits >>> 16), 0x7feb352d);
      bits = Math.imul(bits ^ (bits >>> 15), 0x846ca68b);
      bits = (bits ^ (bits >>> 16)) >>> 0;
      if (bits >= limit) floats[(out >> 2) + i] += floats[(x >> 2) + i] * scale;
    }
  }

  /** What softmax needs of a row: its largest entry, and then the exponentials and their sum. */
  function exponentials(floats, at, n) {
    let [top, total] = [-Infinity, 0];
    for (let j = 0; j < n; j += 1) if (floats[at + j] > top) top = floats[at + j];
    for (let j = 0; j < n; j += 1) {
      const below = floats[at + j] - top;
      floats[at + j] = below < -50 ? 0 : Math.exp(below); // see kernels.c
      total += floats[at + j];
    }
    return { top, total };
  }

  /** Scores (batch, heads, query, key) become weights, in place; see kernels.c. */
  function softmax(scores, lengths, slopes, batch, heads, queries, keys, causal, scale) {
    const { floats, integers } = memory;
    let at = scores >> 2;
    for (let row = 0; row < batch; row += 1) {
      const length = lengths ? Math.min(integers[(lengths >> 2) + row], keys) : keys;
      for (let head = 0; head < heads; head += 1) {
        const slope = slopes ? floats[(slopes >> 2) + head] : 0;
        for (let i = 0; i < queries; i += 1, at += keys) {
          const seen = causal ? Math.min(i + 1, length) : length;
          for (let j = 0; j < seen; j += 1) {
            floats[at + j] = floats[at + j] * scale - slope * Math.abs(i - j);
          }
          const { total } = exponentials(floats, at, seen);
          for (let j = 0; j < seen; j += 1) floats[at + j] /= total;
          floats.fill(0, at + seen, at + keys);
        }
      }
    }
  }

  /** Gradients of weights become those of scores, in place. */
  function softmax_backward(gradients, weights, rows, keys, scale) {
    const { floats } = memory;
    for (let i = 0; i < rows; i += 1) {
      const [d, w] = [(gradients >> 2) + i * keys, (weights >> 2) + i * keys];
      let mean = 0;
      for (let j = 0; j < keys; j += 1) mean += floats[w + j] * floats[d + j];
      for (let j = 0; j < keys; j += 1) {
        floats[d + j] = floats[w + j] * (floats[d + j] - mean) * scale;
      }
    }
  }

  /** Each row gets mean 0 and variance 1, then gain and bias; keeps mean and 1 / deviation. */
  function layer_norm(out, kept, x, gain, bias, rows, width, eps) {
    const { floats } = memory;
    const [g, b] = [gain >> 2, bias >> 2];
    for (let i = 0; i < rows; i += 1) {
      const [from, to] = [(x >> 2) + i * width, (out >> 2) + i * width];
      let [mean, variance] = [0, 0];
      for (let j = 0; j < width; j += 1) mean += floats[from + j];
      mean /= width;
      for (let j = 0; j < width; j += 1) variance += (floats[from + j] - mean) ** 2;
      const scale = 1 / Math.sqrt(variance / width + eps);
      for (let j = 0; j < width; j += 1) {
        floats[to + j] = (floats[from + j] - mean) * scale * floats[g + j] + floats[b + j];
      }
      floats[(kept >> 2) + 2 * i] = mean;
      floats[(kept >> 2) + 2 * i + 1] = scale;
    }
  }

  function layer_norm_backward(dx, dgain, dbias, dy, kept, x, gain, rows, width) {
    const { floats } = memory;
    const [g, dg, db] = [gain >> 2, dgain >> 2, dbias >> 2];
    for (let i = 0; i < rows; i += 1) {
      const [from, to, d] = [x, dx, dy].map((at) => (at >> 2) + i * width);
      const mean = floats[(kept >> 2) + 2 * i];
      const scale = floats[(kept >> 2) + 2 * i + 1];
      let [sum, along] = [0, 0];
      for (let j = 0; j < width; j += 1) {
        const normal = (floats[from + j] - mean) * scale;
        const change = floats[d + j] * floats[g + j];
        floats[dg + j] += floats[d + j] * normal;
        floats[db + j] += floats[d + j];
        sum += change;
        along += change * normal;
      }
      for (let j = 0; j < width; j += 1) {
        const normal = (floats[from + j] - mean) * scale;
        const change = floats[d + j] * floats[g + j];
        floats[to + j] += scale * (change - (sum + along * normal) / width);
      }
    }
  }

  /** The sum of -ln softmax(logits)[target], and its gradient times `scale`; -1: no target. */
  function cross_entropy(gradients, logits, targets, rows, classes, scale) {
    const { floats, integers } = memory;
    let loss = 0;
    for (let i = 0; i < rows; i += 1) {
      const target = integers[(targets >> 2) + i];
      const [d, x] = [(gradients >> 2) + i * classes, (logits >> 2) + i * classes];
      if (target >= 0) {
        floats.copyWithin(d, x, x + classes);
        const { top, total } = exponentials(floats, d, classes);
        loss += Math.log(total) + top - floats[x + target];
        for (let j = 0; j < classes; j += 1) floats[d + j] *= scale / total;
        floats[d + target] -= scale;
      } else {
        floats.fill(0, d, d + classes);
      }
    }
    return loss;
  }

  const sigmoid = (x) => 1 / (1 + Math.exp(-x));

  /**
   * A step of a gated recurrent unit for each row: new states from x = (W_r x, W_z x, W_n x), from
   * hidden, the same of the old state, and from the old state h itself; kept: reset gate, update gate
   * and candidate of each row.
   */
  function gru(out, outRow, kept, x, xRow, hidden, h, hRow, rows, width) {
    const { floats } = memory;
    for (let i = 0; i < rows; i += 1) {
      const [o, a, b] = [(out >> 2) + i * outRow, (x >> 2) + i * xRow, (h >> 2) + i * hRow];
      const [k, u] = [(kept >> 2) + 3 * i * width, (hidden >> 2) + 3 * i * width];
      for (let j = 0; j < width; j += 1) {
        const reset = sigmoid(floats[a + j] + floats[u + j]);
        const update = sigmoid(floats[a + width + j] + floats[u + width + j]);
        const n = Math.tanh(floats[a + 2 * width + j] + reset * floats[u + 2 * width + j]);
        floats[k + j] = reset;
        floats[k + width + j] = update;
        floats[k + 2 * width + j] = n;
        floats[o + j] = n + update * (floats[b + j] - n);
      }
    }
  }

  /** Of the gradients of new states: those of x, of hidden, and of the old state beside hidden. */
  function gru_backward(dx, xRow, dhidden, dh, dhRow, dy, yRow, kept, hidden, h, hRow, rows, width) {
    const { floats } = memory;
    for (let i = 0; i < rows; i += 1) {
      const [a, c, d] = [(dx >> 2) + i * xRow, (dh >> 2) + i * dhRow, (dy >> 2) + i * yRow];
      const [b, inner] = [(h >> 2) + i * hRow, 3 * i * width];
      const [k, u, e] = [kept, hidden, dhidden].map((address) => (address >> 2) + inner);
      for (let j = 0; j < width; j += 1) {
        const change = floats[d + j];
        const [reset, update, n] = [floats[k + j], floats[k + width + j], floats[k + 2 * width + j]];
        const dn = change * (1 - update) * (1 - n * n);
        const dz = change * (floats[b + j] - n) * update * (1 - update);
        const dr = dn * floats[u + 2 * width + j] * reset * (1 - reset);
        floats[a + j] += dr;
        floats[a + width + j] += dz;
        floats[a + 2 * width + j] += dn;
        floats[e + j] += dr;
        floats[e + width + j] += dz;
        floats[e + 2 * width + j] += dn * reset;
        floats[c + j] += change * update;
      }
    }
  }

  /** scores[b][i] = v . tanh(query[b] + key[b][i]); kept: the tanh. */
  function additive_scores(scores, kept, query, key, v, batch, keys, width) {
    const { floats } = memory;
    for (let row = 0; row < batch * keys; row += 1) {
      const q = (query >> 2) + Math.floor(row / keys) * width;
      const [k, t] = [(key >> 2) + row * width, (kept >> 2) + row * width];
      let score = 0;
      for (let j = 0; j < width; j += 1) {
        const bent = Math.tanh(floats[q + j] + floats[k + j]);
        floats[t + j] = bent;
        score += floats[(v >> 2) + j] * bent;
      }
      floats[(scores >> 2) + row] = score;
    }
  }

  function additive_scores_backward(dquery, dkey, dv, dscores, kept, v, batch, keys, width) {
    const { floats } = memory;
    for (let row = 0; row < batch * keys; row += 1) {
      const q = (dquery >> 2) + Math.floor(row / keys) * width;
      const [k, t] = [(dkey >> 2) + row * width, (kept >> 2) + row * width];
      const change = floats[(dscores >> 2) + row];
      for (let j = 0; j < width; j += 1) {
        const bent = floats[t + j];
        const inside = change * floats[(v >> 2) + j] * (1 - bent * bent);
        floats[(dv >> 2) + j] += change * bent;
        floats[q + j] += inside;
        floats[k + j] += inside;
      }
    }
  }

  /** out[b] += the sum of the values of b, each times its weight. */
  function mix(out, weights, values, batch, keys, width) {
    const { floats } = memory;
    for (let row = 0; row < batch * keys; row += 1) {
      const [o, x] = [(out >> 2) + Math.floor(row / keys) * width, (values >> 2) + row * width];
      const weight = floats[(weights >> 2) + row];
      for (let j = 0; j < width; j += 1) floats[o + j] += weight * floats[x + j];
    }
  }

  function mix_backward(dweights, dvalues, dy, weights, values, batch, keys, width) {
    const { floats } = memory;
    for (let row = 0; row < batch * keys; row += 1) {
      const d = (dy >> 2) + Math.floor(row / keys) * width;
      const [x, dx] = [(values >> 2) + row * width, (dvalues >> 2) + row * width];
      const weight = floats[(weights >> 2) + row];
      let along = 0;
      for (let j = 0; j < width; j += 1) {
        along += floats[d + j] * floats[x + j];
        floats[dx + j] += weight * floats[d + j];
      }
      floats[(dweights >> 2) + row] += along;
    }
  }

  function sum_of_squares(a, n) {
    const { floats } = memory;
    let sum = 0;
    for (let at = a >> 2; at < (a >> 2) + n; at += 1) sum += floats[at] * floats[at];
    return sum;
  }

  /**
   * One step of Adam for n parameters. shrink: of the gradients, so that they are not too long;
   * rate: the learning rate by 1 - beta1^steps; root: that of 1 - beta2^steps.
   */
  function adam(x, gradients, means, squares, n, shrink, beta1, beta2, rate, root, eps) {
    const { floats } = memory;
    const [at, g, m, v] = [x, gradients, means, squares].map((address) => address >> 2);
    for (let i = 0; i < n; i += 1) {
      const gradient = floats[g + i] * shrink;
      floats[m + i] += (gradient - floats[m + i]) * (1 - beta1);
      floats[v + i] = floats[v + i] * beta2 + gradient * gradient * (1 - beta2);
      floats[at + i] -= (rate * floats[m + i]) / (Math.sqrt(floats[v + i]) / root + eps);
    }
  }

  return {
    product, add_rows, sum_rows, relu, relu_backward, dropout, softmax, softmax_backward,
    layer_norm, layer_norm_backward, cross_entropy, sum_of_squares, adam, gru, gru_backward, additive_scores,
    additive_scores_backward, mix, mix_backward,
  };
}
