import json, glob, pytest
from datetime import timedelta
from backfill_assets.days import DayRange
from backfill_assets_tests.stories.adopted_orders import HISTORY, write_history
FEW = DayRange(HISTORY.first, HISTORY.first + timedelta(days=2))
def test_x(spark,tmp_path):
    t=tmp_path/'orders'; write_history(spark,t,FEW,**{"delta.enableDeletionVectors": "true"})
    spark.sql(f"DELETE FROM delta.`{t}` WHERE order_id = '2025-01-02-1'")
    spark.sql(f"ALTER TABLE delta.`{t}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")
    print(spark.sql(f"REORG TABLE delta.`{t}` APPLY (PURGE)").collect())
    for f in sorted(glob.glob(str(t/'_delta_log/*.json'))): print(f[-8:], open(f).read()[:3000])
    t=tmp_path/'rt'; write_history(spark,t,FEW,**{"delta.enableRowTracking": "true"})
    for c in ("ALTER TABLE {} DROP FEATURE rowTracking","ALTER TABLE {} DROP FEATURE domainMetadata","ALTER TABLE {} SET TBLPROPERTIES ('delta.enableRowTracking' = 'false')","ALTER TABLE {} DROP FEATURE rowTracking","ALTER TABLE {} DROP FEATURE domainMetadata"):
        try:
            spark.sql(c.format(f"delta.`{t}`")); print('OK',c)
        except Exception as e: print('ERR',c,str(e)[:600])
    for f in sorted(glob.glob(str(t/'_delta_log/*.json'))): print(f[-8:], [l[:400] for l in open(f).read().splitlines() if 'protocol' in l or 'metaData' in l])
