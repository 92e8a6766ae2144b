// Foreign text in places where it must not pass for anything else.

// Controls, and what changes the direction or hides: a person would not see that they are there, or see others in their place.
const unseen = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e0fff}]/gu;

/** A text in which characters that cannot be seen are written as escapes. */
export function visible(text: string): string {
  return text.replace(unseen, (c) => {
    const code = c.codePointAt(0)!;
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** The beginning of a text; what is left out is said by "…". */
export function short(text: string, most: number): string {
  return text.length > most ? text.slice(0, most).trimEnd() + "…" : text;
}

/** A value as JSON that can be read. */
export function json(value: unknown): string {
  return JSON.stringify(value, undefined, 2) ?? "";
}
