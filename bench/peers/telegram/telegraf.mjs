import { Telegraf } from 'telegraf';
import { queue, steps } from './steps.mjs';

const [base, token] = process.argv.slice(2);
const bot = new Telegraf(token, { telegram: { apiRoot: base } });
const q = queue();
bot.on('message', (ctx) => q.put(ctx.message));
const presses = queue();
bot.on('callback_query', (ctx) => presses.put(ctx.callbackQuery));
const running = bot.launch();

await steps({
  getMe: () => bot.telegram.getMe(),
  next: q.next,
  send: (chat, text, o) => bot.telegram.sendMessage(chat, text, o),
  edit: (chat, id, text, o) => bot.telegram.editMessageText(chat, id, undefined, text, o),
  typing: (chat, o) => bot.telegram.sendChatAction(chat, 'typing', o),
  photo: (chat, data, o) => bot.telegram.sendPhoto(chat, { source: data, filename: 'p.png' }, o),
  download: async (id) => (await fetch(await bot.telegram.getFileLink(id))).text(),
  press: presses.next,
  answer: (id, text) => bot.telegram.answerCbQuery(id, text),
  menu: (list, scope) => bot.telegram.setMyCommands(list, { scope }),
  commands: (list) => bot.telegram.setMyCommands(list),
  remove: (chat, id) => bot.telegram.deleteMessage(chat, id),
  webhookInfo: () => bot.telegram.getWebhookInfo(),
  error: (e) => [e.response.error_code, e.response.description, e.response.parameters ?? {}],
  end: async () => {
    bot.stop();
    await running;
  },
});
