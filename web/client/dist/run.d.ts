import type { JSONValue } from "./fold.js";
import { RunError } from "./types.js";
import type { Growing, NamedEvent, PatternIn, RunEvent, RunStatus, ValueAt } from "./types.js";
/** Called with a changed value, its uri, and whether it is complete. A value that is replaced is null in between. */
export type Subscriber<V = JSONValue> = (value: V | null, uri: string, done: boolean) => void;
/**
 * One run of a workflow or agent, followed to its end. It is a promise of the final document, an async iterator of its
 * events, and a live view of the document.
 */
export declare class Run<T = JSONValue, E extends NamedEvent = never> implements PromiseLike<T>, AsyncIterable<RunEvent<E>> {
    #private;
    /** The run's id, as soon as it is known. */
    get id(): string | undefined;
    get status(): RunStatus;
    /** The reason why it did not complete. */
    get error(): RunError | undefined;
    /** The document so far. It is immutable; later documents share its unchanged parts. */
    get document(): Growing<T>;
    /** Values beside the document, by uri: `$reasoning_context`, `$tools/0`, `$tool_results/0`. */
    get reserved(): Readonly<Record<string, JSONValue>>;
    then<A = T, B = never>(onDone?: ((document: T) => A | PromiseLike<A>) | null, onError?: ((reason: any) => B | PromiseLike<B>) | null): Promise<A | B>;
    catch<B = never>(onError?: ((reason: any) => B | PromiseLike<B>) | null): Promise<T | B>;
    finally(onEnd?: (() => void) | null): Promise<T>;
    /**
     * All events, as they arrive. A reader that begins late or falls far behind gets a snapshot first: the document as one
     * delta at the root. It ends after `finished` or `canceled`, and throws if the client could not follow the run to there.
     * To leave the loop neither cancels the run nor stops following it.
     */
    [Symbol.asyncIterator](): AsyncGenerator<RunEvent<E>, void, undefined>;
    /**
     * Calls fn for each value whose uri matches the pattern, once per animation frame in which it has changed, and once more
     * when it is complete, and also for existing values. In a frame, changed values come first, in document order, and then
     * values that only became complete. Returns a function that ends the subscription.
     */
    subscribe<P extends string>(pattern: P & PatternIn<T, P>, fn: Subscriber<Growing<ValueAt<T, P>>>): () => void;
    /** Calls fn once per animation frame in which the run has changed. */
    watch(fn: () => void): () => void;
    /** Cancels the run on the server, which keeps the document so far. Resolves when the server has accepted that. */
    cancel(): Promise<void>;
    /**
     * Answers an `approval_required` event, by its `id`. The model reads `reason`. With `remember` the
     * tool does not ask again in this session. Rejects with `conflict` if the call was answered before or has expired.
     */
    approve(id: string, decision?: "approve" | "deny", more?: {
        reason?: string;
        remember?: "session";
    }): Promise<void>;
    /** Stops following the run. The run continues, unless its request has `on_disconnect: "cancel"`. */
    close(reason?: unknown): void;
}
