"""Repairs of moto 5.2.5 where it differs from AWS.

Each module is one repair. Its docstring says what AWS does and what stock moto does, and `apply`
makes moto do as AWS does. Tests run each repair beside stock moto. After an upgrade of moto, a test
that fails on its stock half names a repair that can go.
"""
