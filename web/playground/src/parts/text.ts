// Foreign text in places where it must not pass for anything else.

// Controls, and what changes the direction or hides: a person would not see that they are there, or see others in their place.
const unseen = /(?![\t\n])[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\ufffc]/gu;

/** A text in which characters that cannot be seen are written as escapes, which are those of JSON. */
export function visible(text: string): string {
  return text.replace(unseen, escaped);
}

function escaped(text: string): string {
  return text.replace(/[^]/g, (unit) => "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0"));
}

/** The beginning of a text; what is left out is said by "…". */
export function short(text: string, most: number): string {
  return text.length > most ? text.slice(0, most).trimEnd() + "…" : text;
}

/** A value as JSON that can be read, in which every character can be seen. Spaces but the plain one are escapes, too. */
export function json(value: unknown): string {
  return visible(JSON.stringify(value, undefined, 2) ?? "").replace(/(?! )\p{Zs}/gu, escaped);
}
