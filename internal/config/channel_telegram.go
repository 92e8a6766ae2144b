package config

// Telegram has the settings of a channel of type telegram; see package channel/telegram.
type Telegram struct {
	Token     Secret
	API       string
	Mode      string
	PublicURL string
	Secret    Secret
	Preview   string
	ParseMode string
	Menu      string
	MaxMedia  Size
	Files     string
}

var telegramSettings = settingsIn(func(ch *Channel) *Telegram { return &ch.Telegram }, []Setting{
	{Key: "token", Secret: true, Help: "token of the bot, from @BotFather"},
	{
		Key: "api", Default: "https://api.telegram.org", check: unlessEmpty(checkURL),
		Help: "address of the Bot API server; set it for a local server",
	},
	{Key: "mode", Default: "poll", OneOf: []string{"poll", "webhook"}, Help: "how updates come: by polling, or sent to public_url"},
	{Key: "public_url", check: unlessEmpty(checkURL), Help: "public https address of this server, for mode webhook"},
	{Key: "secret", Secret: true, Help: "secret of the webhook, 16 to 256 of A-Z, a-z, 0-9, _ and -; unset: made from the token"},
	{
		Key: "preview", Default: "edit", OneOf: []string{"edit", "draft", "off"},
		Help: "what people see of an unfinished answer: a growing message, a draft in private chats, or nothing",
	},
	{Key: "parse_mode", Default: "html", OneOf: []string{"html", "markdownv2"}, Help: "markup of answers"},
	{
		Key: "menu", Default: "commands", OneOf: []string{"commands", "off"},
		Help: "menu behind the slash: the commands that a person may give, or the menu of @BotFather",
	},
	{Key: "max_media", Default: "10MiB", Min: "0B", Help: "maximum size of a file; the public server allows 20MiB"},
	{Key: "files", Help: "absolute path of a local Bot API server's files"},
})
