"""What is raised for wrong settings. Loads nothing that takes time."""


class SettingsError(ValueError):
    """The settings are wrong.

    The message names each wrong setting, why it is wrong, and what is allowed.
    """
