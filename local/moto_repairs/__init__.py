"""What moto 5.2.5 does otherwise than AWS, put right.

Each module is one repair: its docstring says what AWS does and what stock moto does, `apply` puts it right, and a test of the same name in
`tests/local/moto_repairs/` fails on stock moto. When moto is upgraded, a test whose stock half passes names a repair that can go.
"""
