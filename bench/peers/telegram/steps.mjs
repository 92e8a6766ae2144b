// What each client does, in the words of the client; main.go knows what is to come of it. A line is printed for each step.

const say = (name, got) => console.log(JSON.stringify({ name, got }));

// failed returns what a call was refused with, as the client understood it.
const failed = async (call, read) => {
  try {
    await call();
    return 'it was not refused';
  } catch (e) {
    return read(e);
  }
};

const entities = (m) => (m.entities ?? []).map((e) => `${e.type} ${e.offset}+${e.length}${e.url ? ' ' + e.url : ''}${e.language ? ' ' + e.language : ''}`);

export async function steps(c) {
  const me = await c.getMe();
  say('getMe', [me.id, me.is_bot, me.username, me.can_read_all_group_messages]);

  const first = await c.next();
  say('a message', [first.text, first.from.id, first.chat.type, entities(first)]);
  const topic = await c.next();
  say('a message in a topic', [topic.text, topic.message_thread_id, topic.is_topic_message, topic.chat.is_forum]);
  const file = await c.next();
  say('a document', [file.document.file_name, file.document.file_size, await c.download(file.document.file_id)]);

  const html = await c.send(7, '<b>b <i>😀</i></b> &lt; <a href="https://a.example/">l</a>', { parse_mode: 'HTML', reply_parameters: { message_id: first.message_id } });
  say('HTML', [html.text, entities(html), html.reply_to_message?.message_id === first.message_id]);
  const md = await c.send(7, '*b* `c` ```go\nx\n``` 1\\.', { parse_mode: 'MarkdownV2' });
  say('MarkdownV2', [md.text, entities(md)]);
  const there = await c.send(-1007, 'there', { message_thread_id: 3 });
  say('into a topic', [there.message_thread_id, there.is_topic_message]);

  say('bad HTML', await failed(() => c.send(7, 'a <b>b', { parse_mode: 'HTML' }), c.error));
  say('bad MarkdownV2', await failed(() => c.send(7, 'a.', { parse_mode: 'MarkdownV2' }), c.error));
  say('too long', await failed(() => c.send(7, 'x'.repeat(4097), {}), c.error));
  say('no such chat', await failed(() => c.send(99, 'x', {}), c.error));
  say('blocked', await failed(() => c.send(9, 'x', {}), c.error));
  say('too many', await failed(() => c.send(10, 'x', {}), c.error));
  say('migrated', await failed(() => c.send(-5, 'x', {}), c.error));

  const edited = await c.edit(7, md.message_id, 'new *text*', {});
  say('an edit', [edited.message_id === md.message_id, edited.text, typeof edited.edit_date]);
  say('an edit that changes nothing', await failed(() => c.edit(7, md.message_id, 'new *text*', {}), c.error));
  say('typing', await c.typing(-1007, { message_thread_id: 3 }));
  const photo = await c.photo(7, Buffer.from('\x89PNG'), { caption: 'a <u>c</u>', parse_mode: 'HTML' });
  say('a photo', [photo.photo.length, photo.caption, photo.caption_entities[0].type]);
  say('commands', await c.commands([{ command: 'help', description: 'what there is' }]));
  const keyboard = (data) => ({ reply_markup: { inline_keyboard: [[{ text: 'Approve', callback_data: data }]] } });
  const asked = await c.send(7, 'may it run?', keyboard('approve:q'));
  say('buttons', asked.reply_markup.inline_keyboard.map((row) => row.map((b) => `${b.text} ${b.callback_data}`)));
  const press = await c.press();
  say('a press', [press.data, press.from.id, press.message.message_id === asked.message_id, press.message.reply_markup.inline_keyboard.length]);
  say('its answer', await c.answer(press.id, 'Approved.'));
  const decided = await c.edit(7, asked.message_id, 'it may', {});
  say('an edit without buttons', [decided.text, decided.reply_markup ?? null]);
  say('an answer to nobody', await failed(() => c.answer('1', 'x'), c.error));
  say('too long data', await failed(() => c.send(7, 'x', keyboard('x'.repeat(65))), c.error));
  say('a menu for one person', await c.menu([{ command: 'help', description: 'what there is' }], { type: 'chat', chat_id: 7 }));
  say('deleting', await c.remove(7, md.message_id));
  say('the webhook', (await c.webhookInfo()).url);
  await c.end();
}

// queue is what a client has been given and nobody has asked for yet.
export function queue() {
  const have = [], waiting = [];
  return {
    put: (m) => (waiting.length ? waiting.shift()(m) : have.push(m)),
    next: () => (have.length ? Promise.resolve(have.shift()) : new Promise((r) => waiting.push(r))),
  };
}
