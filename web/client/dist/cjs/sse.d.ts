/** One event of a stream: its fields. `id` is undefined where this event has none. */
export interface Frame {
    id?: string;
    event: string;
    data: string;
}
/** Reads a body and yields its events. `retry` is told what the server says of reconnecting, in ms. */
export declare function frames(body: ReadableStream<Uint8Array>, alive: () => void, retry: (ms: number) => void): AsyncGenerator<Frame[]>;
