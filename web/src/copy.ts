// Commands that can be copied.

import { button } from "./elements";

/** Adds a button to every command, where the browser lets pages write to the clipboard. */
export function addCopyButtons(): void {
  for (const code of document.querySelectorAll<HTMLElement>("pre > code")) {
    const text = code.textContent ?? "";
    const copy = button("Copy the command", () => {
      void copyText(text).then((done) => {
        copy.textContent = done ? "Copied" : "Press Ctrl+C";
        if (!done) {
          getSelection()?.selectAllChildren(code);
        }
        setTimeout(() => (copy.textContent = "Copy the command"), 2000);
      });
    });
    copy.className = "copy";
    code.parentElement?.after(copy);
  }
}

/** Copies a text; false if the browser refuses, as it does for some files. */
async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
