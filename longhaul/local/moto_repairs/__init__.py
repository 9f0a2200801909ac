"""Repairs of moto 5.2.5 where it differs from AWS.

Each module has the repairs of a service. A repair is a public function that makes moto do as AWS
does; its docstring says what AWS does and what stock moto does. Tests run each repair beside stock
moto. After an upgrade of moto, a test that fails on its stock half names a repair that can go.
"""
