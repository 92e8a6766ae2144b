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

// What changes the direction of the text behind it, up to its end.
const directions = /[\u202a-\u202e\u2066-\u2069]/g;

/** A text in which characters that would turn around what follows are written as escapes, and all else as it is. */
export function marked(text: string): string {
  return text.replace(directions, escaped);
}

/** A name of data as words: "first_name" is "First name". */
export function titleOfName(name: string): string {
  const words = visible(short(name, 200)).replace(/[_-]+/g, " ").replace(/([a-z\d])([A-Z])/g, (_, a: string, b: string) => `${a} ${b.toLowerCase()}`).trim();
  return words ? words[0]!.toUpperCase() + words.slice(1) : "(no name)";
}
