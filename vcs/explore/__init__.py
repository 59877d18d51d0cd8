"""The explorer: a local web page that shows what caused a pixel (`vcs explore`, docs/explorer.md).

`tape` keeps a game that can be rewound exactly, `chain` follows a colour or a byte back to ROM and RAM,
`explain` computes gradients, exact effects and their agreement, `export` writes them and the program that
makes them again, `protocol` answers the page's messages, and `server` lets nobody but that page ask.
"""
