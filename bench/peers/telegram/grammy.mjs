import { Bot, InputFile } from 'grammy';
import { queue, steps } from './steps.mjs';

const [base, token] = process.argv.slice(2);
const bot = new Bot(token, { client: { apiRoot: base } });
const q = queue();
bot.on('message', (ctx) => q.put(ctx.message));
const presses = queue();
bot.on('callback_query', (ctx) => presses.put(ctx.callbackQuery));
bot.start();

await steps({
  getMe: () => bot.api.getMe(),
  next: q.next,
  send: (chat, text, o) => bot.api.sendMessage(chat, text, o),
  edit: (chat, id, text, o) => bot.api.editMessageText(chat, id, text, o),
  typing: (chat, o) => bot.api.sendChatAction(chat, 'typing', o),
  photo: (chat, data, o) => bot.api.sendPhoto(chat, new InputFile(data, 'p.png'), o),
  download: async (id) => {
    const f = await bot.api.getFile(id);
    return (await fetch(`${base}/file/bot${token}/${f.file_path}`)).text();
  },
  press: presses.next,
  answer: (id, text) => bot.api.answerCallbackQuery(id, { text }),
  menu: (list, scope) => bot.api.setMyCommands(list, { scope }),
  commands: (list) => bot.api.setMyCommands(list),
  remove: (chat, id) => bot.api.deleteMessage(chat, id),
  webhookInfo: () => bot.api.getWebhookInfo(),
  error: (e) => [e.error_code, e.description, e.parameters ?? {}],
  end: () => bot.stop(),
});
