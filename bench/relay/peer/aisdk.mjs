// A server that relays a model with the AI SDK, as its documentation shows. Usage: node aisdk.mjs text|object MODEL_ADDRESS.
//
// "text" is streamText to a UI message stream, which the SDK's useChat reads. "object" is streamObject: the server parses the growing object at
// each piece; the pieces of its text go to the reader, as useObject takes them, here as events so that their ends can be seen.
import {createOpenAICompatible} from '@ai-sdk/openai-compatible';
import {jsonSchema, pipeUIMessageStreamToResponse, streamObject, streamText, toUIMessageStream} from 'ai';
import {serve, sse} from './serve.mjs';

const [kind, address] = process.argv.slice(2);
const model = createOpenAICompatible({name: 'bench', baseURL: `http://${address}/v1`, apiKey: 'bench'})('bench-1');
const schema = jsonSchema({
	type: 'object',
	properties: {
		title: {type: 'string'},
		sections: {type: 'array', items: {type: 'object', properties: {head: {type: 'string'}, body: {type: 'string'}}}},
	},
});
const instructions = 'Answer in JSON.';
globalThis.AI_SDK_LOG_WARNINGS = false;

serve(async (prompt, res) => {
	if (kind === 'object') {
		await sse(res, streamObject({model, schema, instructions, prompt}).textStream);
		return;
	}
	const result = streamText({model, instructions, prompt});
	await pipeUIMessageStreamToResponse({response: res, stream: toUIMessageStream({stream: result.stream})});
});
