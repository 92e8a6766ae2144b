/** The most segments that a uri or pattern may have; values nest no deeper, either. */
export declare const maxDepth = 1024;
/** Splits a uri at its unescaped slashes; the segments stay escaped, so that `$tools` and `\$tools` differ. */
export declare function split(uri: string): string[];
/** The key that an escaped segment stands for. */
export declare function plain(raw: string, uri: string): string;
/** Escapes a key: the inverse of what {@link parseURI} does with a segment. */
export declare function escape(key: string): string;
/** The uri of a list of keys and indexes. */
export declare function formatURI(segments: readonly (string | number)[]): string;
/** The keys of a uri: the inverse of {@link formatURI}. Throws for what is no uri. */
export declare function parseURI(uri: string): string[];
/** Where in a pattern a way through the document stands: the parts that come next. A pattern of n parts is through at n. */
export type States = readonly number[];
/** Matches uris: `*` is one segment, `**` any number of them, none included; `\*` and `\**` are keys that are stars. */
export declare class Pattern {
    #private;
    readonly text: string;
    /** The states before the first segment. */
    readonly start: States;
    constructor(text: string);
    /** The states after one more segment, in its escaped form; none where nothing below it can match. */
    step(states: States, raw: string): States;
    /** Whether a way that has come to these states matches as it is. */
    matched(states: States): boolean;
    matches(uri: string): boolean;
}
