// Elements of the page.

/** Makes an element with attributes and children. */
export function make<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Record<string, string> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** Makes a button that does something. */
export function button(text: string, act: () => void): HTMLButtonElement {
  const made = make("button", { type: "button" }, text);
  made.addEventListener("click", act);
  return made;
}

/** Offers bytes as a file. */
export function download(name: string, type: string, content: BlobPart): void {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = make("a", { href: address, download: name });
  link.click();
  // The click has read the address when the next task begins, in every browser.
  setTimeout(() => URL.revokeObjectURL(address), 0);
}

/** A name for a file, from the title of the page and of a part of it. */
export function fileName(part: string, extension: string): string {
  const words = `${document.title} ${part}`.toLowerCase().match(/[a-z0-9]+/g) ?? ["report"];
  return `${words.join("-").slice(0, 80)}.${extension}`;
}
