/** Anything that JSON can say. */
export type JSONValue = string | number | boolean | null | JSONValue[] | {
    [key: string]: JSONValue;
};
type Container = Record<string, unknown> | unknown[];
export declare function isContainer(value: unknown): value is Container;
/** The own member of a container: what a prototype has is not in the document. */
export declare function member(of: Container, key: string): unknown;
/** Applies deltas, in order, to a document that begins as `{}`. */
export declare class Fold {
    #private;
    /** The document so far. It does not change any more; later deltas make another one. */
    get document(): unknown;
    /** What stands beside the document, by uri: thoughts, tool calls and their results. It does not change any more. */
    get reserved(): Readonly<Record<string, unknown>>;
    /**
     * Applies one delta: a string is appended, `{}` sees to it that there is an object, anything else is set. Throws where the
     * uri is none or does not fit the array that it leads into; the document is then as it was.
     */
    apply(uri: string, delta: unknown): void;
}
export {};
