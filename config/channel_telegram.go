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
			Help:  "token of the bot, as @BotFather shows it",
			field: func(c *Config) any { return &of(c).Telegram.Token },
		},
		{
			Key: at + "api", Default: "https://api.telegram.org", check: checkURL,
			Help:  "address of the Bot API server; another than the public one for a local server",
			field: func(c *Config) any { return &of(c).Telegram.API },
		},
		{
			Key: at + "mode", Default: "poll", OneOf: []string{"poll", "webhook"},
			Help:  "how updates come: asked for, or sent to public_url",
			field: func(c *Config) any { return &of(c).Telegram.Mode },
		},
		{
			Key: at + "public_url", check: checkURL,
			Help:  "https address of this server as the platform reaches it, for mode webhook",
			field: func(c *Config) any { return &of(c).Telegram.PublicURL },
		},
		{
			Key: at + "secret", Secret: true,
			Help:  "secret of the webhook, 16 to 256 of A-Z, a-z, 0-9, _ and -; one is made from the token unless set",
			field: func(c *Config) any { return &of(c).Telegram.Secret },
		},
		{
			Key: at + "preview", Default: "edit", OneOf: []string{"edit", "draft", "off"},
			Help:  "what is shown of an answer before it is finished: a message that grows, a draft in private chats, nothing",
			field: func(c *Config) any { return &of(c).Telegram.Preview },
		},
		{
			Key: at + "parse_mode", Default: "html", OneOf: []string{"html", "markdownv2"},
			Help:  "markup that answers are sent in",
			field: func(c *Config) any { return &of(c).Telegram.ParseMode },
		},
		{
			Key: at + "menu", Default: "commands", OneOf: []string{"commands", "off"},
			Help:  "menu that people see when they type a slash: the commands that they may give, or what @BotFather has",
			field: func(c *Config) any { return &of(c).Telegram.Menu },
		},
		{
			Key: at + "max_media", Default: "10MiB", Min: "0B",
			Help:  "size of a file that is loaded; the public server gives 20MiB at most",
			field: func(c *Config) any { return &of(c).Telegram.MaxMedia },
		},
		{
			Key:   at + "files",
			Help:  "folder in which a local Bot API server keeps its files; absolute",
			field: func(c *Config) any { return &of(c).Telegram.Files },
		},
	}
}
