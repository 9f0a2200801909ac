"""What leads on: follow-ons, descent, joins, trees and backfills."""
