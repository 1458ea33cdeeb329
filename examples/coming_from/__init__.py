"""Another queue and Stanchion side by side, one script for each: `python -m coming_from.huey_to_stanchion`.

Each script has the old program, the new one, and the days between them: new calls go to Stanchion, the old worker
drains the rest, and delayed jobs move over. A mail must go out exactly once on either side.
"""
