// Attention weights: decoding those of a page, and drawing them on a canvas.

function bytesOf(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place++) bytes[place] = binary.charCodeAt(place);
  return bytes;
}

// The weights of a head, row by row; their bytes are 255 times the square root.
export function weightsOf(part, { layer, head, words }) {
  const rows = part.queries.tokens.length, columns = (part.keys ?? part.queries).tokens.length;
  const bytes = bytesOf(part.maps[layer * part.heads + head]);
  const weights = new Float32Array(rows * columns);
  if (part.num_stored === columns) {
    for (let place = 0; place < weights.length; place++) weights[place] = (bytes[place] / 255) ** 2;
  } else {
    const count = rows * part.num_stored, places = new DataView(bytes.buffer);
    for (let place = 0; place < count; place++) {
      const column = places.getUint16(2 * place, true);
      weights[Math.floor(place / part.num_stored) * columns + column] = (bytes[2 * count + place] / 255) ** 2;
    }
  }
  return words ? byWord(weights, part.queries, part.keys ?? part.queries) : { weights, rows, columns };
}

// Weights between words: the sum over the tokens of a key word, the mean over those of a query word.
function byWord(weights, queries, keys) {
  const rows = queries.word_starts.length, columns = keys.word_starts.length, width = keys.tokens.length;
  const summed = new Float32Array(rows * columns);
  for (let row = 0; row < rows; row++) {
    const first = queries.word_starts[row], end = queries.word_starts[row + 1] ?? queries.tokens.length;
    for (let token = first; token < end; token++) {
      for (let column = 0, place = 0; column < columns; column++) {
        const last = keys.word_starts[column + 1] ?? width;
        for (; place < last; place++) summed[row * columns + column] += weights[token * width + place] / (end - first);
      }
    }
  }
  return { weights: summed, rows, columns };
}

let shades = [];
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  const numbers = (name) => {
    let hex = style.getPropertyValue(name).trim().slice(1);
    if (hex.length === 3) hex = [...hex].map((digit) => digit + digit).join("");
    return [0, 2, 4].map((place) => parseInt(hex.slice(place, place + 2), 16));
  };
  const [ground, full] = [numbers("--ground"), numbers("--colour-0")];
  shades = Array.from({ length: 256 }, (_, shade) =>
    ground.map((low, channel) => Math.round(low + ((full[channel] - low) * shade) / 255)));
}

// Shades follow the square root of weights, so that small ones are visible; a pixel shows the largest of its weights.
export function draw(canvas, { weights, rows, columns }, maxSize) {
  const numRows = Math.min(rows, maxSize), numColumns = Math.min(columns, maxSize);
  const largest = new Float32Array(numRows * numColumns);
  for (let row = 0; row < rows; row++) {
    const start = Math.floor((row * numRows) / rows) * numColumns;
    for (let column = 0; column < columns; column++) {
      const place = start + Math.floor((column * numColumns) / columns), weight = weights[row * columns + column];
      if (weight > largest[place]) largest[place] = weight;
    }
  }
  canvas.width = numColumns;
  canvas.height = numRows;
  const context = canvas.getContext("2d"), image = context.createImageData(numColumns, numRows);
  largest.forEach((weight, place) => {
    const [red, green, blue] = shades[Math.min(255, Math.round(255 * Math.sqrt(weight)))];
    image.data.set([red, green, blue, 255], 4 * place);
  });
  context.putImageData(image, 0, 0);
}
