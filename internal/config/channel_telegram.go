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

func telegramSettings(at string, of func(*Config) *Channel) []Setting {
	return []Setting{
		{
			Key: at + "token", Secret: true,
			Help:  "token of the bot, from @BotFather",
			field: func(c *Config) any { return &of(c).Telegram.Token },
		},
		{
			Key: at + "api", Default: "https://api.telegram.org", check: checkURL,
			Help:  "address of the Bot API server; set it for a local server",
			field: func(c *Config) any { return &of(c).Telegram.API },
		},
		{
			Key: at + "mode", Default: "poll", OneOf: []string{"poll", "webhook"},
			Help:  "how updates come: by polling, or sent to public_url",
			field: func(c *Config) any { return &of(c).Telegram.Mode },
		},
		{
			Key: at + "public_url", check: checkURL,
			Help:  "public https address of this server, for mode webhook",
			field: func(c *Config) any { return &of(c).Telegram.PublicURL },
		},
		{
			Key: at + "secret", Secret: true,
			Help:  "secret of the webhook, 16 to 256 of A-Z, a-z, 0-9, _ and -; unset: made from the token",
			field: func(c *Config) any { return &of(c).Telegram.Secret },
		},
		{
			Key: at + "preview", Default: "edit", OneOf: []string{"edit", "draft", "off"},
			Help:  "what people see of an unfinished answer: a growing message, a draft in private chats, or nothing",
			field: func(c *Config) any { return &of(c).Telegram.Preview },
		},
		{
			Key: at + "parse_mode", Default: "html", OneOf: []string{"html", "markdownv2"},
			Help:  "markup of answers",
			field: func(c *Config) any { return &of(c).Telegram.ParseMode },
		},
		{
			Key: at + "menu", Default: "commands", OneOf: []string{"commands", "off"},
			Help:  "menu behind the slash: the commands that a person may give, or the menu of @BotFather",
			field: func(c *Config) any { return &of(c).Telegram.Menu },
		},
		{
			Key: at + "max_media", Default: "10MiB", Min: "0B",
			Help:  "maximum size of a file; the public server allows 20MiB",
			field: func(c *Config) any { return &of(c).Telegram.MaxMedia },
		},
		{
			Key:   at + "files",
			Help:  "absolute path of a local Bot API server's files",
			field: func(c *Config) any { return &of(c).Telegram.Files },
		},
	}
}
