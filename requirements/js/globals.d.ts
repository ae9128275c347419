// What the book's scripts find in a page without an import, for the type check alone.

interface Window {
  /** Of widget-host.js: takes the modules of a page's widgets. */
  bookWidgets: { add(name: string, module: { render(view: any): any }): void };
  /** Of _static/widgets/engine.js: the worker of the laboratories, and its kernels in base64. */
  bookTexts?: Record<string, string>;
  bookWriting?: string;
  bookEngine?: { text: string; wasm: string };
  /** Of _static/widgets/models/: models by their names, the numbers in base64. */
  bookModels?: Record<string, { header: any; data: string }>;
  /** Of _static/widgets/records/: what models wrote, by the record's name, the part and the seed. */
  bookRecords?: Record<string, Record<string, Record<string, string[]>>>;
  /** Of _static/book-index.js: what the search looks through. */
  bookIndex: any;
  /** Of the theme. */
  toggleFullScreen(): void;
}

// A selector says which kind of element it finds, to readers alone.
interface ParentNode {
  querySelector(selectors: string): any;
  querySelectorAll(selectors: string): NodeListOf<any>;
}
