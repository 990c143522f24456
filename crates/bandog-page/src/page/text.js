// The texts of the page in the language of the document. The server writes this language into the tag <html>.

const language = document.documentElement.lang.startsWith("zh") ? "zh" : "en";
const { default: table } = await import(`./${language}.js`);

/** The locale of numbers and times. */
export const LOCALE = language === "zh" ? "zh-CN" : "en-GB";

/** The text with this key. `{name}` in a text is replaced by the value with this name. */
export function t(key, values = {}) {
  const text = table[key];
  if (text === undefined) throw new Error(`no text ${key}`);
  return text.replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

/** The text for a count: that with the key `….one` for 1, otherwise `….many`. */
export function tn(key, count, values = {}) {
  return t(`${key}.${count === 1 ? "one" : "many"}`, { count: number(count), ...values });
}

/** The text for a word in an answer of the server. If there is no text for it, this is the word itself. */
export function word(group, name) {
  return table[`${group}.${name}`] ?? String(name).replaceAll("_", " ");
}

/** A number as text. */
export const number = (value, options) => value.toLocaleString(LOCALE, options);

/** Writes the fixed texts below this element: `data-t` has the key of the content, `data-t-label` that of the label, and so on. */
export function translate(root) {
  for (const element of root.querySelectorAll("[data-t]")) element.textContent = t(element.dataset.t);
  const attributes = { tLabel: "aria-label", tPlaceholder: "placeholder", tTitle: "title" };
  for (const [name, attribute] of Object.entries(attributes)) {
    const selector = `[data-${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}]`;
    for (const element of root.querySelectorAll(selector)) element.setAttribute(attribute, t(element.dataset[name]));
  }
  for (const { content } of root.querySelectorAll("template")) translate(content);
}
