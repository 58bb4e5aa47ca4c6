// Commands that can be copied.

import { button } from "./elements";

/** Adds a button to every command in a part of the page, where the browser lets pages write to the clipboard. */
export function addCopyButtons(root: ParentNode): void {
  for (const code of root.querySelectorAll<HTMLElement>("pre > code")) {
    code.parentElement?.after(copyButton("Copy the command", code));
  }
}

/** A button that copies the text of an element. */
export function copyButton(words: string, code: HTMLElement): HTMLButtonElement {
  const copy = button(words, () => {
    void copyText(code.textContent ?? "").then((done) => {
      copy.textContent = done ? "Copied" : "Press Ctrl+C";
      if (!done) {
        getSelection()?.selectAllChildren(code);
      }
      setTimeout(() => (copy.textContent = words), 2000);
    });
  });
  copy.className = "copy";
  return copy;
}

/** Copies a text; false if the browser refuses, as it does for some files. */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
