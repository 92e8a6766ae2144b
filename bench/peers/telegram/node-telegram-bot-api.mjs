import { Bot, InputFile } from 'node-telegram-bot-api';
import { queue, steps } from './steps.mjs';

const [base, token] = process.argv.slice(2);
const bot = new Bot(token, { apiRoot: base });
const q = queue();
bot.on('message', (ctx) => q.put(ctx.update.message));
const presses = queue();
bot.on('callback_query', (ctx) => presses.put(ctx.update.callback_query));
const running = bot.startPolling();

await steps({
  getMe: () => bot.api.getMe(),
  next: q.next,
  send: (chat, text, o) => bot.api.sendMessage({ chat_id: chat, text, ...o }),
  edit: (chat, id, text, o) => bot.api.editMessageText({ chat_id: chat, message_id: id, text, ...o }),
  typing: (chat, o) => bot.api.sendChatAction({ chat_id: chat, action: 'typing', ...o }),
  photo: (chat, data, o) => bot.api.sendPhoto({ chat_id: chat, photo: new InputFile(data, { filename: 'p.png' }), ...o }),
  download: async (id) => {
    const f = await bot.api.getFile({ file_id: id });
    return (await fetch(`${base}/file/bot${token}/${f.file_path}`)).text();
  },
  press: presses.next,
  answer: (id, text) => bot.api.answerCallbackQuery({ callback_query_id: id, text }),
  menu: (list, scope) => bot.api.setMyCommands({ commands: list, scope }),
  commands: (list) => bot.api.setMyCommands({ commands: list }),
  remove: (chat, id) => bot.api.deleteMessage({ chat_id: chat, message_id: id }),
  webhookInfo: () => bot.api.getWebhookInfo(),
  error: (e) => [e.errorCode, e.description, e.parameters ?? {}],
  end: async () => {
    bot.stop();
    await running;
  },
});
