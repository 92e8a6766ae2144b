// A server that relays a model with LangChain.js: the chunks of ChatOpenAI, written as events. Usage: node langchain.mjs MODEL_ADDRESS.
import {ChatOpenAI} from '@langchain/openai';
import {serve, sse} from './serve.mjs';

const model = new ChatOpenAI({model: 'bench-1', apiKey: 'bench', configuration: {baseURL: `http://${process.argv[2]}/v1`}});

serve(async (question, res) => {
	const stream = await model.stream([['system', 'Answer in JSON.'], ['human', question]]);
	await sse(res, (async function* () {
		for await (const chunk of stream) if (chunk.text) yield {delta: chunk.text};
	})());
});
