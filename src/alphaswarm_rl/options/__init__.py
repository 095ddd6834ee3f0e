"""Options = ENV = CLI: one table, three faces, one value.

`options.table` is the table; `options.settings` and `options.resolve` read settings and specs, which a command's help
does not need. Only the command line needs `options.click_options`.
"""
